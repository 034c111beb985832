package idle

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog/internal/handle"
)

// timerKey is the key under which a context carries its timer.
type timerKey struct{}

// FromContext returns the innermost timer that the context belongs to, nil if there is none.
func FromContext(ctx context.Context) *Timer {
	t, _ := ctx.Value(timerKey{}).(*Timer)
	return t
}

// A timerContext is the timer as the context that it ends.
type timerContext Timer

// Deadline implements [context.Context].
func (c *timerContext) Deadline() (time.Time, bool) { return c.inner.Deadline() }

// Done implements [context.Context].
func (c *timerContext) Done() <-chan struct{} { return c.inner.Done() }

// Err implements [context.Context].
func (c *timerContext) Err() error { return c.inner.Err() }

// Value finds the timer besides what the parent carries.
func (c *timerContext) Value(key any) any {
	switch key {
	case timerKey{}:
		return (*Timer)(c)
	case handle.SignsKey{}:
		return (*timerSigns)(c)
	}
	return c.inner.Value(key)
}
