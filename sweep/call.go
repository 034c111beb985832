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
