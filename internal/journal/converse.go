package journal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/clocks"
)

// errNoAnswer says that the time-out ended an exchange.
var errNoAnswer = errors.New("event store did not answer in time")

// ErrExited says that the store ended the goroutine that called it.
var ErrExited = fmt.Errorf("event store: %w", bounded.ErrExited)

// Nothing is the value of an exchange that only succeeds or fails.
type Nothing = struct{}

// Within has one conversation with the store, for at most limit or as long as the caller's context lasts. A
// conversation that ignores its context is left behind; what it says later is dropped.
func Within[T any](
	caller context.Context, j *Journal, limit time.Duration, talk func(context.Context) (T, error),
) (T, error) {
	p := j.place
	if p.Instant {
		return Here(func() (T, error) { return talk(caller) })
	}
	var none T
	if limit <= 0 {
		return none, p.noAnswer(caller)
	}
	ctx, cancel := clocks.WithTimeout(caller, p.Clock, limit)
	defer cancel()
	if !j.enter(ctx) {
		return none, p.noAnswer(caller)
	}
	if p.Inline {
		defer j.Leave()
		return Here(func() (T, error) { return talk(ctx) })
	}
	return Converse(caller, ctx, p, j.Leave, talk)
}

// Here makes a call of the store on this goroutine.
func Here[T any](call func() (T, error)) (T, error) { return storeErr(bounded.Here(call)) }

// Converse talks on a goroutine of its own, which leaves when it has, and waits for it as long as ctx lasts.
func Converse[T any](
	caller, ctx context.Context, p *Place, leave func(), talk func(context.Context) (T, error),
) (T, error) {
	value, err := bounded.Do(ctx, func() (T, error) {
		defer leave()
		return talk(ctx)
	})
	if errors.Is(err, bounded.ErrLeftBehind) {
		var none T
		return none, p.noAnswer(caller)
	}
	return storeErr(value, err)
}

// storeErr names the store in the error of a call that did not return. Of a panic it has the type only, because what
// the value says may be a secret.
func storeErr[T any](value T, err error) (T, error) {
	if panicked := (*bounded.PanicError)(nil); errors.As(err, &panicked) {
		err = fmt.Errorf("event store panicked with a %T", panicked.Value)
	} else if errors.Is(err, bounded.ErrExited) {
		err = ErrExited
	}
	return value, err
}

// noAnswer is the error of an exchange that came to nothing: its caller ended it, or the time-out did.
func (p *Place) noAnswer(caller context.Context) error {
	if caller.Err() != nil {
		return fmt.Errorf("wait for the event store: %w", bounded.Cause(caller))
	}
	return fmt.Errorf("%w (%v): %w", errNoAnswer, p.Timeout, context.DeadlineExceeded)
}

// enter waits for the run's other conversation to end, and reports whether it did before the context.
func (j *Journal) enter(ctx context.Context) bool {
	if j.Enter() {
		return true
	}
	select {
	case j.known().gate <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

// Enter begins a conversation of the run, unless it has another one. [Journal.Leave] ends it.
func (j *Journal) Enter() bool {
	select {
	case j.known().gate <- struct{}{}:
		return true
	default:
		return false
	}
}

// Leave ends a conversation.
func (j *Journal) Leave() { <-j.known().gate }

// Busy reports whether the run has a conversation.
func (j *Journal) Busy() bool {
	k := j.more.Load()
	return k != nil && len(k.gate) > 0
}
