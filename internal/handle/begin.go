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

type execvpKey struct{}

// WithExecvp has commands started by the rule of execvp: a shell reads a script that does not say what reads it.
func WithExecvp(ctx context.Context) context.Context {
	return context.WithValue(ctx, execvpKey{}, true)
}

// ByExecvp reports whether WithExecvp is around ctx.
func ByExecvp(ctx context.Context) bool { return ctx.Value(execvpKey{}) != nil }
