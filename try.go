package watchdog

import (
	"context"
	"errors"
	"fmt"
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
	ctx, t, err := w.openTry(ctx)
	if err != nil {
		return fmt.Errorf("try in run %s: %w", w.id, err)
	}
	defer w.closeTry(t)
	err = work(ctx)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// A try is work that a directive ends.
type try struct {
	cancel  context.CancelCauseFunc
	stopRun func() bool
}

func (w *Watchdog) openTry(ctx context.Context) (context.Context, *try, error) {
	_ = w.poll() // a run that is late has ended
	if FromContext(ctx) != w {
		ctx = context.WithValue(ctx, runKey{}, w)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	t := &try{cancel: cancel}
	err := w.addTry(t)
	if err != nil {
		cancel(err)
		return nil, nil, err
	}
	t.stopRun = context.AfterFunc(w.Context(), func() { cancel(context.Cause(w.Context())) })
	return ctx, t, nil
}

func (w *Watchdog) addTry(t *try) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase == ended {
		return fmt.Errorf("%w: %w", ErrEnded, w.cause())
	}
	more := w.extras()
	if more.tries == nil {
		more.tries = map[*try]struct{}{}
	}
	more.tries[t] = struct{}{}
	return nil
}

func (w *Watchdog) closeTry(t *try) {
	t.stopRun()
	w.mu.Lock()
	delete(w.more.tries, t)
	w.mu.Unlock()
	t.cancel(context.Canceled)
}

// A retrial is a directive and the work that it ends.
type retrial struct {
	directive *Directive
	tries     []*try
}

// retrial is what the directive ends, nothing if it does not ask for that. The caller holds mu.
func (w *Watchdog) retrial(d Directive) (r retrial) {
	asks := d.Kind == DirectiveRetry || d.Kind == DirectiveUnstuck
	if !asks || w.observeOnly || w.more == nil {
		return r
	}
	r.directive = &d
	for t := range w.more.tries {
		r.tries = append(r.tries, t)
	}
	clear(w.more.tries)
	return r
}

func (r retrial) carryOut() {
	for _, t := range r.tries {
		t.cancel(r.directive)
	}
}
