//go:build unix

package migrating

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// grace is the time between SIGTERM and SIGKILL, and that in which a pipe may stay open after it.
const grace = time.Second

//migrating:before

// A quietWriter ends a command that writes nothing for the limit.
type quietWriter struct {
	io.Writer
	mu    sync.Mutex // guards the timer
	timer *time.Timer
	limit time.Duration
}

// Write implements [io.Writer]. While nobody takes the output its timer stands still.
func (w *quietWriter) Write(p []byte) (int, error) {
	if w.timer == nil {
		return w.Writer.Write(p)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	n, err := w.Writer.Write(p)
	w.timer.Reset(w.limit)
	return n, err
}

// ProcessGroupBefore runs a command until it exits or prints nothing for too long.
func ProcessGroupBefore(ctx context.Context, limit time.Duration, out io.Writer, name string, args ...string) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		group := -cmd.Process.Pid
		time.AfterFunc(grace, func() { _ = syscall.Kill(group, syscall.SIGKILL) })
		return syscall.Kill(group, syscall.SIGTERM)
	}
	cmd.WaitDelay = 2 * grace
	quiet := &quietWriter{Writer: out, limit: limit}
	if limit > 0 {
		quiet.timer = time.AfterFunc(limit, func() { end(fmt.Errorf("%w: %v", ErrSilent, limit)) })
		defer quiet.timer.Stop()
	}
	cmd.Stdout, cmd.Stderr = quiet, quiet
	err := cmd.Run()
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return errors.Join(err, cause)
	}
	return err
}

//migrating:after

// ProcessGroupAfter runs a command until it exits or prints nothing for too long.
func ProcessGroupAfter(ctx context.Context, limit time.Duration, out io.Writer, name string, args ...string) error {
	cmd := exec.Command(name, args...) //nolint:noctx // stall.Run takes the context
	cmd.Stdout, cmd.Stderr = out, out
	graces := []stall.Step{{Signal: syscall.SIGTERM, Grace: grace}} // SIGTERM, then SIGKILL
	_, err := stall.Run(ctx, cmd, stall.Config{Step: "tool", Store: &watchdog.Memory{}, NoOutput: limit, Grace: graces})
	return err
}

//migrating:end
