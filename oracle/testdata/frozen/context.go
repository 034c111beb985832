package watchdog

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/handle"
)

// A runContext is the watchdog as the context of its run. It is not a child of its parent: what ends the run is decided
// in one place, under the run's mutex, and a child would be ended from a second one. Whoever looks at it first checks
// the parent, and [context.AfterFunc] tells those who only wait.
type runContext Watchdog

// newRunContext makes the inner context and hooks it to the parent.
func (w *Watchdog) newRunContext(parent context.Context) {
	if parent.Done() == nil {
		w.inner, w.cancel = context.WithCancelCause(parent)
		return
	}
	w.parent = parent
	w.inner, w.cancel = context.WithCancelCause(context.WithoutCancel(parent))
}

// followParent has the parent tell of its end, unless the run has ended. It can be the host's code, as can what stops
// it.
func (w *Watchdog) followParent() {
	if w.parent == nil || w.hasEnded() {
		return
	}
	if w.outer != nil { // which looks at its layers when it ends
		w.mu.Lock()
		if w.phase == running {
			w.outer.addLayer(w)
			w.pauseWithRun()
		}
		w.mu.Unlock()
		return
	}
	stop := context.AfterFunc(w.parent, w.checkParent)
	w.mu.Lock()
	over := w.phase == ended
	if !over {
		w.stopParent = stop
	}
	w.mu.Unlock()
	if over {
		stop()
	}
}

// ownsAfterFunc reports whether the parent is of a type of the host's that tells of its end itself.
func (w *Watchdog) ownsAfterFunc() bool {
	_, own := w.parent.(interface {
		AfterFunc(f func()) (stop func() bool)
	})
	return own
}

// Deadline is the parent's.
func (c *runContext) Deadline() (time.Time, bool) {
	if c.parent == nil {
		return time.Time{}, false
	}
	return c.parent.Deadline()
}

// Value finds the run's handle besides what the parent carries. Go 1.25's context.Cause asks for the inner context's
// cause, by a key of its own, before anybody has called Err: so the parent is checked here, too.
func (c *runContext) Value(key any) any {
	switch key {
	case handle.Key{}, handle.SignsKey{}:
		return (*runHandle)(c)
	}
	(*Watchdog)(c).checkParent()
	return c.inner.Value(key)
}

// Done implements [context.Context].
func (c *runContext) Done() <-chan struct{} {
	(*Watchdog)(c).checkParent()
	return c.inner.Done()
}

// Err implements [context.Context]. A run that its parent ended has the parent's error.
func (c *runContext) Err() error {
	w := (*Watchdog)(c)
	w.checkParent()
	if w.inner.Err() == nil {
		return nil
	}
	for w.endedByParent() {
		if w.outer == nil {
			return w.parent.Err()
		}
		w = w.outer
	}
	return w.inner.Err()
}

// checkParent ends a running session whose parent has ended, with its layers. Its trace is told on another
// goroutine, because whoever looks at a context may hold locks, such as that of another session.
func (w *Watchdog) checkParent() {
	if w.inner.Err() != nil {
		return
	}
	session := w.session()
	if session.parent == nil || session.parent.Err() == nil {
		return
	}
	w.mu.Lock()
	w.endWithParent()
	w.mu.Unlock()
	if w.trace.waiting() {
		go w.deliverTrace()
	}
}
