package watchdog

import (
	"context"
	"errors"
	"fmt"
)

// errNoAnswer is wrapped by the error of an exchange that the record timeout ended.
var errNoAnswer = errors.New("event store did not answer in time")

// An answer is what an exchange came to.
type answer[T any] struct {
	value T
	err   error
}

// exchange has one conversation with the store, for at most the record timeout. The conversations of a run do not
// overlap, so that a store that hangs is not asked again while it does. A conversation that ignores its context is left
// behind on its goroutine; what it says later is dropped.
func exchange[T any](w *Watchdog, talk func(context.Context) (T, error)) (T, error) {
	return exchangeWithin(w.storeContext(), w, talk)
}

// exchangeWithin is exchange that a caller can end earlier.
func exchangeWithin[T any](caller context.Context, w *Watchdog, talk func(context.Context) (T, error)) (T, error) {
	if w.instant() {
		return protect(caller, talk)
	}
	ctx, cancel := timeout(caller, w.clock.other, w.recordTimeout)
	defer cancel()
	if !w.enter(ctx) {
		var none T
		return none, w.noAnswer(caller)
	}
	if w.pollOnly {
		defer w.leave()
		return protect(ctx, talk)
	}
	answered := make(chan answer[T], 1)
	go func() {
		value, err := protect(ctx, talk)
		w.leave()
		answered <- answer[T]{value, err}
	}()
	select {
	case a := <-answered:
		return a.value, a.err
	case <-ctx.Done():
		var none T
		return none, w.noAnswer(caller)
	}
}

// instant reports that the store answers at once, so that no one has to wait for it.
func (w *Watchdog) instant() bool {
	_, memory := w.store.(*Memory)
	return memory
}

// enter waits for the run's other conversation to end, and reports whether it did before the context.
func (w *Watchdog) enter(ctx context.Context) bool {
	w.mu.Lock()
	if w.gate == nil {
		w.gate = make(chan struct{}, 1)
	}
	gate := w.gate
	w.mu.Unlock()
	select {
	case gate <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (w *Watchdog) leave() { <-w.gate }

// noAnswer is the error of an exchange that came to nothing: its caller ended it, or the record timeout did.
func (w *Watchdog) noAnswer(caller context.Context) error {
	if caller.Err() != nil {
		return fmt.Errorf("wait for the event store: %w", outsideCause(caller))
	}
	return fmt.Errorf("%w (%v): %w", errNoAnswer, w.recordTimeout, context.DeadlineExceeded)
}

// storeContext has the values of the host's context and not its end: what is to be recorded is often why that ended.
func (w *Watchdog) storeContext() context.Context { return context.WithoutCancel(w.inner) }

// protect makes a panic of the store an error, so that it cannot prevent a cancel.
func protect[T any](ctx context.Context, talk func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("event store panicked: %v", p)
		}
	}()
	return talk(ctx)
}

// nothing is the value of an exchange that only succeeds or fails.
type nothing = struct{}

// append stores events of the run, all or none.
func (w *Watchdog) append(events ...Event) error {
	_, err := exchange(w, func(ctx context.Context) (nothing, error) {
		return nothing{}, w.store.Append(ctx, events...)
	})
	return err
}
