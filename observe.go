package watchdog

import (
	"context"

	"github.com/seed62658d38/watchdog/internal/handle"
)

// WithObserver returns a context in which observe is called for each run that a package of this module begins by
// itself, such as that of a command, with the context in which it was begun. What observe returns is called when the
// run has ended. It is for packages that measure runs; those of New, Resume and Layer are the caller's to measure.
func WithObserver(ctx context.Context, observe func(ctx context.Context, w *Watchdog) (ended func())) context.Context {
	return handle.WithObserver(ctx, func(ctx, run context.Context) (ended func()) {
		return observe(ctx, FromContext(run))
	})
}
