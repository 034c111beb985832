package sweep

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
)

// lateness is how long a call has to return after its context ended, before the sweeper gives up waiting for it.
const lateness = time.Second

// limited makes a call whose context ends after limit. It returns an error if the call panics, or has not returned
// lateness after its context ended.
func limited[T any](
	ctx context.Context, limit time.Duration, call func(context.Context) (T, error),
) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	wait, stop := endLater(ctx, lateness)
	defer stop()
	return bounded.Do(wait, func() (T, error) { return call(ctx) })
}

// endLater returns a context that ends a delay after ctx did, with the cause of ctx.
func endLater(ctx context.Context, delay time.Duration) (later context.Context, stop func()) {
	later, end := context.WithCancelCause(context.WithoutCancel(ctx))
	unregister := context.AfterFunc(ctx, func() {
		time.AfterFunc(delay, func() { end(context.Cause(ctx)) })
	})
	return later, func() {
		unregister()
		end(nil)
	}
}

// callHost makes a call of one of the host's funcs. It goes on when ctx ends, for the session in hand to be finished.
func (s *Sweeper) callHost(ctx context.Context, call func(context.Context) error) error {
	_, err := limited(context.WithoutCancel(ctx), s.cfg.StopTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, call(ctx)
	})
	return err
}
