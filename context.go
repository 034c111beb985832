package watchdog

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog/internal/handle"
)

// FromContext returns the watchdog of the innermost run that the context belongs to, nil if there is none. All
// methods of a nil [Watchdog] work, so that deep code need not know whether it is watched.
func FromContext(ctx context.Context) *Watchdog {
	h, _ := ctx.Value(handle.Key{}).(*runHandle)
	return (*Watchdog)(h)
}

// Context returns the run's context, for everything that is done in the run. It ends when a limit is exceeded or
// another guard cancels the run, with the [Stop] as its cause; when the parent ends, with the parent's cause; after
// [Watchdog.Interrupt], with the [Interruption]; after [Watchdog.Complete], with [ErrComplete]; and after
// [Watchdog.Close], with [ErrClosed]. Its deadline is the parent's, because that of the run can be extended. That of a
// nil Watchdog is [context.Background].
func (w *Watchdog) Context() context.Context {
	if w == nil {
		return context.Background()
	}
	return (*runContext)(w)
}

// A runContext is the watchdog as the context of its run. It is not a child of its parent: what ends the run is decided
// in one place, under the lock of its tree, and a child would be ended from a second one. Whoever looks at it first
// checks the parent, and [context.AfterFunc] tells those who only wait.
type runContext Watchdog

// Deadline is the parent's.
func (c *runContext) Deadline() (time.Time, bool) { return c.r.Deadline() }

// Value finds the run's handle besides what the parent carries. Go 1.25's context.Cause asks for the inner context's
// cause, by a key of its own, before anybody has called Err: so the parent is checked here, too.
func (c *runContext) Value(key any) any {
	switch key {
	case handle.Key{}, handle.SignsKey{}:
		return (*runHandle)(c)
	}
	c.r.CheckParent()
	return c.r.Inner().Value(key)
}

// Done implements [context.Context].
func (c *runContext) Done() <-chan struct{} {
	c.r.CheckParent()
	return c.r.Inner().Done()
}

// Err implements [context.Context]. A run that its parent ended has the parent's error.
func (c *runContext) Err() error { return c.r.Err() }
