package phase

import (
	"context"
	"errors"
	"os/exec"
	"syscall"

	"github.com/seed62658d38/watchdog/stall"
)

// runTree runs a command and returns when no process that it started is alive. A command that exits with status 0 after
// the interrupt succeeded.
func runTree(ctx context.Context, step string, cmd *exec.Cmd) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if cmd.Err != nil {
		return cmd.Err
	}
	ctx, release := outsideRun(ctx)
	defer release()
	result, err := stall.Run(ctx, cmd, stall.Config{
		Step: step, Grace: []stall.Step{{Signal: syscall.SIGINT, Grace: Grace}, {Signal: syscall.SIGTERM}},
	})
	switch {
	case result == nil || errors.Is(err, stall.ErrSurvivors):
		return err
	case result.ExitCode == 0:
		return nil
	}
	return &exec.ExitError{ProcessState: cmd.ProcessState}
}

// outsideRun returns a context that ends with ctx and is in no run. In the session's run the command would be a
// layer: with warnings of its own, and ended before the session by the reserve.
func outsideRun(ctx context.Context) (alone context.Context, release func() bool) {
	alone, end := context.WithCancelCause(context.Background())
	return alone, context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
}
