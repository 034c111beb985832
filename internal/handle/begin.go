package handle

import "context"

// A Fresh is the parent of a run that a package of this module begins, see the Begin of watchdog.Config.
type Fresh struct{ Context context.Context }

// An Observer measures a run that a package beside the root began in ctx, by the run's own context. It returns what to
// call when the run has ended.
type Observer func(ctx, run context.Context) (ended func())

type observerKey struct{}

// WithObserver returns a context in which the observer measures the runs that packages begin.
func WithObserver(ctx context.Context, observe Observer) context.Context {
	return context.WithValue(ctx, observerKey{}, observe)
}

// Observe has the context's observer, if there is one, measure a run. It never returns nil.
func Observe(ctx, run context.Context) (ended func()) {
	if observe, ok := ctx.Value(observerKey{}).(Observer); ok {
		return observe(ctx, run)
	}
	return func() {}
}
