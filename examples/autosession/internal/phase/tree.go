package phase

import (
	"context"
	"errors"
	"log/slog"
	"os/exec"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

var quiet = slog.New(slog.DiscardHandler)

// runTree runs a command and returns when nothing that it started is alive. A command that is done is done, also where it was interrupted.
func runTree(ctx context.Context, step string, cmd *exec.Cmd) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if cmd.Err != nil {
		return cmd.Err
	}
	ctx, release := apart(ctx)
	defer release()
	result, err := stall.Run(ctx, cmd, stall.Config{
		Step: step, Store: &watchdog.Memory{}, Logger: quiet, // without a signal of its own it records nothing
		Grace: stall.Grace{Interrupt: Grace, Terminate: watchdog.None},
	})
	switch {
	case result == nil || errors.Is(err, stall.ErrSurvivors):
		return err
	case result.ExitCode == 0:
		return nil
	}
	return &stall.ExitError{Code: result.ExitCode, Signal: result.Signal}
}

// apart is a context that ends with another one and is in no run: in the session's the command would be a layer, which is warned of by itself and ends before the
// session does, by its reserve.
func apart(ctx context.Context) (alone context.Context, release func() bool) {
	alone, end := context.WithCancelCause(context.Background())
	return alone, context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
}
