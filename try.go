package watchdog

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/machine"
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
		return fmt.Errorf("try in run %s: %w", w.r.node.Run, err)
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

	next, before *try // in the tries of the run; guarded by its mu
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

// Begin implements [handle.Work].
func (t *try) Begin(cancel context.CancelCauseFunc) error {
	t.cancel = cancel
	_ = t.of.Stop() // a run that is late has ended
	t.of.r.checkParent()
	return t.of.r.addTry(t)
}

// End implements [handle.Work].
func (t *try) End() {
	t.of.r.locked(func() { t.of.r.removeTry(t) })
}

func (r *run) addTry(t *try) error {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	if r.node.Phase() == machine.Over {
		return fmt.Errorf("%w: %w", ErrEnded, r.cause())
	}
	if t.next = r.tries; t.next != nil {
		t.next.before = t
	}
	r.tries = t
	return nil
}

func (t *try) close() {
	t.End()
	t.cancel(context.Canceled)
}

// removeTry does nothing for one that was removed. The caller holds mu.
func (r *run) removeTry(t *try) {
	switch {
	case t.before != nil:
		t.before.next = t.next
	case r.tries == t:
		r.tries = t.next
	}
	if t.next != nil {
		t.next.before = t.before
	}
	t.next, t.before = nil, nil
}

// takeTries removes those that are open. The caller holds mu.
func (r *run) takeTries() (all []*try) {
	for r.tries != nil {
		all = append(all, r.tries)
		r.removeTry(r.tries)
	}
	return all
}

// A retrial is a directive and the work that it ends.
type retrial struct {
	directive *Directive
	tries     []*try
}

func (a retrial) carryOut() {
	for _, t := range a.tries {
		t.cancel(a.directive)
	}
}
