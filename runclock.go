package watchdog

import (
	"context"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/internal/uptime"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// glance is how long a clock is left unlooked at, at most, because the machine may have slept: by the timer, and by polls.
const (
	glance     = time.Minute
	pollGlance = time.Second
)

// uptimeClock is what a [Config.Clock] may have besides: a count that only goes forward and that goes on while the machine sleeps.
type uptimeClock interface{ Uptime() time.Duration }

// A runClock tells how much real time of the window has elapsed (design rule 7). On the machine's clock it is the
// monotonic clock plus what the machine slept; on any other, what the clock shows, steps back left out.
// All but base and machine is guarded by the run's mutex.
type runClock struct {
	base   uptime.Mark   // the reading at which the run was attached
	atBase time.Duration // what had elapsed by then
	slept  time.Duration // what the machine slept since
	other  clock.Clock   // the host's; nil is the machine's
	meter  verdict.MonotonicClock // of other
}

// newRunClock starts at now, elapsed after the window's start.
func newRunClock(other clock.Clock, now time.Time, elapsed time.Duration) runClock {
	if other == nil {
		return runClock{base: uptime.Start(now), atBase: max(elapsed, 0)}
	}
	c := runClock{base: uptime.At(now), other: other}
	c.meter = verdict.NewMonotonicClock(elapsed, c.reading())
	return c
}

// now is the wall clock, for what people and databases read.
func (c *runClock) now() time.Time { return now(c.other) }

func now(other clock.Clock) time.Time {
	if other != nil {
		return other.Now()
	}
	return time.Now()
}

// elapsed looks at everything there is to see.
func (c *runClock) elapsed() time.Duration {
	if c.other != nil {
		return c.meter.Read(c.reading())
	}
	now := time.Now()
	c.slept = max(c.slept, c.base.Slept(now))
	return c.atBase + now.Sub(c.base.Time()) + c.slept
}

func (c *runClock) reading() time.Duration {
	if counter, ok := c.other.(uptimeClock); ok {
		return counter.Uptime()
	}
	return c.other.Now().Sub(c.base.Time())
}

// sinceBase turns an instant of the run into the machine's monotonic time since base.
func (c *runClock) sinceBase(at time.Duration) time.Duration {
	if at == verdict.Never {
		return verdict.Never
	}
	return at - c.atBase - c.slept
}

// timeout is context.WithTimeout on the clock. (That of the mock clock has an Err that races with its end.)
func timeout(parent context.Context, other clock.Clock, d time.Duration) (context.Context, context.CancelFunc) {
	if other == nil {
		return context.WithTimeout(parent, d)
	}
	ctx, cancel := context.WithCancelCause(parent)
	t := other.AfterFunc(d, func() { cancel(context.DeadlineExceeded) })
	return ctx, func() { t.Stop(); cancel(nil) }
}

// A timer is what [time.Timer] and the mock clock's have in common.
type timer interface {
	Stop() bool
	Reset(d time.Duration) bool
}

func (c *runClock) afterFunc(d time.Duration, f func()) timer {
	if c.other != nil {
		return c.other.AfterFunc(d, f)
	}
	return time.AfterFunc(d, f)
}

// patience is how long a timer of the run's own may wait: no longer than until the next glance where the machine's
// sleep shows in the clock but not in the timer.
func (c *runClock) patience(wait time.Duration) time.Duration {
	_, counts := c.other.(uptimeClock)
	if counts || c.other == nil && !uptime.Exact {
		return min(wait, glance)
	}
	return wait
}
