package watchdog

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog/internal/driver"
	"github.com/seed62658d38/watchdog/internal/handle"
)

// Try runs the work once, under a context that belongs to the run and ends when the run asks for it to be done again or
// in another way: at [DirectiveRetry] and [DirectiveUnstuck], with the [*Directive] as its cause. It ends also with ctx
// and with the run, with their causes. So a ladder reaches work that hangs in a call. Try never loops: the host does.
//
//	for {
//		err := wd.Try(ctx, step)
//		if again := (*watchdog.Directive)(nil); !errors.As(err, &again) {
//			return err
//		}
//	}
//
// Try returns nil if the work did, whatever ended meanwhile, and otherwise the work's error, wrapped with the cause if
// the context has ended. It waits for the work: use package bound for work that may ignore its context. A directive
// that is given while no Try is open ends none. Several may be open at once, each ends. If the run has ended, Try
// returns an error that wraps [ErrEnded] and does not begin the work. On a nil Watchdog it runs the work under ctx.
func (w *Watchdog) Try(ctx context.Context, work func(context.Context) error) error {
	if w == nil {
		return work(ctx)
	}
	t, err := w.openTry(ctx)
	if err != nil {
		return fmt.Errorf("try in run %s: %w", w.r.Node.Run, err)
	}
	defer t.close()
	err = work(t)
	if cause := context.Cause(t); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// A try is work that a directive or the end of the run ends, and the context of it.
type try struct {
	context.Context
	of     *Watchdog
	cancel context.CancelCauseFunc
	work   driver.Dependent
}

// Value finds the run whose work it is, which has the signs of life that are none of a timer's inside.
func (t *try) Value(key any) any {
	if key == (handle.Key{}) {
		return (*runHandle)(t.of)
	}
	value := t.Context.Value(key)
	if key == (handle.SignsKey{}) {
		if _, timer := value.(handle.Timer); !timer {
			return (*runHandle)(t.of)
		}
	}
	return value
}

func (w *Watchdog) openTry(ctx context.Context) (*try, error) {
	t := &try{of: w}
	var cancel context.CancelCauseFunc
	t.Context, cancel = context.WithCancelCause(ctx)
	if err := t.Begin(cancel); err != nil {
		cancel(err)
		return nil, err
	}
	return t, nil
}

func (t *try) Begin(cancel context.CancelCauseFunc) error {
	t.cancel = cancel
	r := &t.of.r
	_ = t.of.Stop() // a run that is late has ended
	r.CheckParent()
	if !t.work.Begin(&r.Run, cancel) {
		return r.errEnded()
	}
	return nil
}

func (t *try) End() { t.work.End(&t.of.r.Run) }

func (t *try) close() {
	t.End()
	t.cancel(context.Canceled)
}
