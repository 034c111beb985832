//go:build !linux

package phase

import (
	"context"
	"os"
	"os/exec"
)

// runGroup runs a command and ends it, but not what it started, when the context ends.
func runGroup(ctx context.Context, cmd *exec.Cmd) error {
	bound := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...)
	bound.Dir, bound.Env, bound.Stdout, bound.Stderr, bound.Err = cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr, cmd.Err
	bound.Cancel = func() error { return bound.Process.Signal(os.Interrupt) }
	bound.WaitDelay = Grace
	return bound.Run()
}
