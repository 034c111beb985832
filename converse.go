package watchdog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
)

// exchange has one conversation with the store, for at most the timeout or as long as the caller's context lasts. A
// conversation that ignores its context is left behind; what it says later is dropped.
func exchange[T any](caller context.Context, r *run, talk func(context.Context) (T, error)) (T, error) {
	return exchangeWithin(caller, r, r.tree.timeout, talk)
}

// exchangeWithin is exchange for a caller that has no more than limit of the timeout left.
func exchangeWithin[T any](
	caller context.Context, r *run, limit time.Duration, talk func(context.Context) (T, error),
) (T, error) {
	t := r.tree
	if t.instant() {
		return storeErr(bounded.Here(func() (T, error) { return talk(caller) }))
	}
	var none T
	if limit <= 0 {
		return none, noAnswer(caller, t.timeout)
	}
	ctx, cancel := clocks.WithTimeout(caller, t.clock.other, limit)
	defer cancel()
	if !r.enter(ctx) {
		return none, noAnswer(caller, t.timeout)
	}
	if t.inline {
		defer r.leave()
		return storeErr(bounded.Here(func() (T, error) { return talk(ctx) }))
	}
	return converse(caller, ctx, t.timeout, r.leave, talk)
}

// converse talks on a goroutine of its own, which leaves when it has, and waits for it as long as ctx lasts.
func converse[T any](
	caller, ctx context.Context, timeout time.Duration, leave func(), talk func(context.Context) (T, error),
) (T, error) {
	value, err := bounded.Do(ctx, func() (T, error) {
		defer leave()
		return talk(ctx)
	})
	if errors.Is(err, bounded.ErrLeftBehind) {
		var none T
		return none, noAnswer(caller, timeout)
	}
	return storeErr(value, err)
}

// storeErr names the store in the error of a call that did not return. Of a panic it has the type only, because what
// the value says may be a secret.
func storeErr[T any](value T, err error) (T, error) {
	if panicked := (*bounded.PanicError)(nil); errors.As(err, &panicked) {
		err = fmt.Errorf("event store panicked with a %T", panicked.Value)
	} else if errors.Is(err, bounded.ErrExited) {
		err = fmt.Errorf("event store: %w", err)
	}
	return value, err
}

// gateOf is the gate that an exchange of the run holds.
func (r *run) gateOf() chan struct{} {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	if r.gate == nil {
		r.gate = make(chan struct{}, 1)
	}
	return r.gate
}

// enter waits for the run's other conversation to end, and reports whether it did before the context.
func (r *run) enter(ctx context.Context) bool {
	gate := r.gateOf()
	select {
	case gate <- struct{}{}:
		return true
	default:
	}
	select {
	case gate <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// enterNow is enter for whoever does not wait.
func (r *run) enterNow() bool {
	select {
	case r.gateOf() <- struct{}{}:
		return true
	default:
		return false
	}
}

// busy reports whether the run has another conversation.
func (r *run) busy() (busy bool) {
	r.locked(func() { busy = len(r.gate) > 0 })
	return busy
}

func (r *run) leave() { <-r.gateOf() }

// noAnswer is the error of an exchange that came to nothing: its caller ended it, or the timeout did.
func noAnswer(caller context.Context, timeout time.Duration) error {
	if caller.Err() != nil {
		return fmt.Errorf("wait for the event store: %w", bounded.Cause(caller))
	}
	return fmt.Errorf("%w (%v): %w", errNoAnswer, timeout, context.DeadlineExceeded)
}

// nothing is the value of an exchange that only succeeds or fails.
type nothing = struct{}
