package sweep

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
)

// lateness is how long a call has to return after its context ended, before the sweeper gives up waiting for it.
const lateness = bounded.Lateness

// limited makes a call whose context ends after limit. It returns an error if the call panics, or has not returned
// lateness after its context ended.
func limited[T any](
	ctx context.Context, limit time.Duration, call func(context.Context) (T, error),
) (T, error) {
	return bounded.Within(ctx, limit, call)
}

// callHost makes a call of one of the host's funcs. It goes on when ctx ends, for the session in hand to be finished.
func (s *Sweeper) callHost(ctx context.Context, call func(context.Context) error) error {
	_, err := limited(context.WithoutCancel(ctx), s.cfg.StopTimeout, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, call(ctx)
	})
	return err
}
