package watchdog

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/machine"
)

// A runContext is the watchdog as the context of its run. It is not a child of its parent: what ends the run is decided
// in one place, under the lock of its tree, and a child would be ended from a second one. Whoever looks at it first
// checks the parent, and [context.AfterFunc] tells those who only wait.
type runContext Watchdog

// followParent has the parent tell of its end, unless the session has ended. It can be the host's code, as can what
// stops it.
func (t *tree) followParent() {
	if t.parent == nil || t.session[0].hasEnded() {
		return
	}
	stop := context.AfterFunc(t.parent, t.checkParent)
	over := false
	t.session[0].locked(func() {
		if over = t.session[0].node.Phase() == machine.Over; !over {
			t.stopParent = stop
		}
	})
	if over {
		stop()
	}
}

// checkParent ends a running session whose parent has ended, with its layers. Its trace is told on another goroutine,
// because whoever looks at a context may hold locks, such as that of another session.
func (t *tree) checkParent() {
	if t.parent == nil || t.parent.Err() == nil {
		return
	}
	t.session[0].step(&machine.Input{Kind: machine.Parent})
}

// checkParent is that of its tree, unless the run has ended.
func (r *run) checkParent() {
	if r.inner.Err() == nil {
		r.tree.checkParent()
	}
}

// Deadline is the parent's.
func (c *runContext) Deadline() (time.Time, bool) {
	if c.r.tree.parent == nil {
		return time.Time{}, false
	}
	return c.r.tree.parent.Deadline()
}

// Value finds the run's handle besides what the parent carries. Go 1.25's context.Cause asks for the inner context's
// cause, by a key of its own, before anybody has called Err: so the parent is checked here, too.
func (c *runContext) Value(key any) any {
	switch key {
	case handle.Key{}, handle.SignsKey{}:
		return (*runHandle)(c)
	}
	c.r.checkParent()
	return c.r.inner.Value(key)
}

// Done implements [context.Context].
func (c *runContext) Done() <-chan struct{} {
	c.r.checkParent()
	return c.r.inner.Done()
}

// Err implements [context.Context]. A run that its parent ended has the parent's error.
func (c *runContext) Err() error {
	r := &c.r
	r.checkParent()
	if r.inner.Err() == nil {
		return nil
	}
	for r.endedByParent() {
		if r.outer == nil {
			return r.tree.parent.Err()
		}
		r = r.outer
	}
	return r.inner.Err()
}

// endedByParent reports whether the run's end is its parent's. It is remembered, because two causes cannot tell: they
// may be equal, or of a type that cannot be compared.
func (r *run) endedByParent() (by bool) {
	r.locked(func() { by = r.byParent })
	return by
}
