package watchdog

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/handle"
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
		return fmt.Errorf("try in run %s: %w", w.id, err)
	}
	defer w.closeTry(t)
	err = work(t)
	if cause := context.Cause(t); err != nil && cause != nil && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}

// A try is work that a directive or the end of the run ends, and the context of it.
type try struct {
	context.Context
	w      *Watchdog
	cancel context.CancelCauseFunc

	next, before *try // in the tries of the run; guarded by its mu
}

// Value finds the run whose work it is, which has the signs of life that are none of a timer's inside.
func (t *try) Value(key any) any {
	if key == (handle.Key{}) {
		return (*runHandle)(t.w)
	}
	value := t.Context.Value(key)
	if key == (handle.SignsKey{}) {
		if _, timer := value.(handle.Timer); !timer {
			return (*runHandle)(t.w)
		}
	}
	return value
}

func (w *Watchdog) openTry(ctx context.Context) (*try, error) {
	t := &try{w: w}
	var cancel context.CancelCauseFunc
	t.Context, cancel = context.WithCancelCause(ctx)
	if err := t.Begin(cancel); err != nil {
		cancel(err)
		return nil, err
	}
	return t, nil
}

// Begin implements [handle.Work].
func (t *try) Begin(cancel context.CancelCauseFunc) error {
	t.cancel = cancel
	_ = t.w.Stop() // a run that is late has ended
	t.w.checkParent()
	return t.w.addTry(t)
}

// End implements [handle.Work].
func (t *try) End() {
	t.w.mu.Lock()
	defer t.w.mu.Unlock()
	t.w.removeTry(t)
}

func (w *Watchdog) addTry(t *try) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase == ended {
		return fmt.Errorf("%w: %w", ErrEnded, w.cause())
	}
	if t.next = w.tries; t.next != nil {
		t.next.before = t
	}
	w.tries = t
	return nil
}

func (w *Watchdog) closeTry(t *try) {
	t.End()
	t.cancel(context.Canceled)
}

// removeTry does nothing for one that was removed. The caller holds mu.
func (w *Watchdog) removeTry(t *try) {
	switch {
	case t.before != nil:
		t.before.next = t.next
	case w.tries == t:
		w.tries = t.next
	}
	if t.next != nil {
		t.next.before = t.before
	}
	t.next, t.before = nil, nil
}

// takeTries removes those that are open. The caller holds mu.
func (w *Watchdog) takeTries() (all []*try) {
	for w.tries != nil {
		all = append(all, w.tries)
		w.removeTry(w.tries)
	}
	return all
}

// A retrial is a directive and the work that it ends.
type retrial struct {
	directive *Directive
	tries     []*try
}

// retrial is what the directive ends, nothing if it does not ask for that. The caller holds mu.
func (w *Watchdog) retrial(d Directive) (r retrial) {
	asks := d.Kind == DirectiveRetry || d.Kind == DirectiveUnstuck
	if !asks || w.observeOnly {
		return r
	}
	return retrial{&d, w.takeTries()}
}

func (r retrial) carryOut() {
	for _, t := range r.tries {
		t.cancel(r.directive)
	}
}

// endTries ends the work with the run, on goroutines of its own: the caller holds mu, and a context of a type of the
// host's can be asked when one inside it is cancelled.
func (w *Watchdog) endTries(cause error) {
	for _, t := range w.takeTries() {
		go t.cancel(cause)
	}
}
