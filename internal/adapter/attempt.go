package adapter

import (
	"context"
	"errors"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/internal/bounded"
)

// Attempt makes one call of a model that [Guard.Model] has admitted. The work's context ends with ctx, with the run of
// ctx, and when the run asks for it to be done again or in another way; once it has ended, the work has the grace of
// the guard's Tools to return, and is then abandoned: its result and its panic are dropped.
//
// The error is the work's, with why its context has ended. A [*watchdog.Directive] in it says that the call should be
// made again if nothing of its answer was used, with [ModelRequest].Again. A panic of the work passes through as a
// [*bound.CallPanic].
func Attempt[T any](ctx context.Context, g *Guard, work func(context.Context) (T, error)) (result T, err error) {
	var panicked *bounded.PanicError
	err = watchdog.FromContext(ctx).Try(ctx, func(ctx context.Context) error {
		wait, stop := later(ctx, g.limits("").Grace)
		defer stop()
		var failed error
		result, failed = bounded.Do(wait, func() (T, error) { return work(ctx) })
		errors.As(failed, &panicked)
		return failed
	})
	if panicked != nil {
		panic(&bound.CallPanic{Value: panicked.Value, Stack: panicked.Stack})
	}
	return result, err
}

// later returns a context that ends the grace after ctx has, for its cause.
func later(ctx context.Context, grace time.Duration) (_ context.Context, stop func()) {
	wait, end := context.WithCancelCause(context.WithoutCancel(ctx))
	unlink := context.AfterFunc(ctx, func() {
		alarm := time.NewTimer(grace)
		defer alarm.Stop()
		select {
		case <-alarm.C:
			end(context.Cause(ctx))
		case <-wait.Done():
		}
	})
	return wait, func() {
		unlink()
		end(nil)
	}
}
