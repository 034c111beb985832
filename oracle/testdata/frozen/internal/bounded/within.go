package bounded

import (
	"context"
	"time"
)

// Lateness is how long a call has to return after its context ended, before [Within] and [Until] give up waiting for
// it.
const Lateness = time.Second

// Within makes a call whose context ends after limit, as [Do] does, and gives up waiting for it [Lateness] after its
// context has ended.
func Within[T any](ctx context.Context, limit time.Duration, call func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return Until(ctx, call)
}

// Until is Within for a call that goes on until its context ends.
func Until[T any](ctx context.Context, call func(context.Context) (T, error)) (T, error) {
	wait, stop := endLater(ctx, Lateness)
	defer stop()
	return Do(wait, func() (T, error) { return call(ctx) })
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
