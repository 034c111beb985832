package driver

import (
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/internal/uptime"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// glance is how often the timer looks at the clock at least: the machine may have slept.
const glance = time.Minute

// uptimeClock is what a clock of the host may have besides: a count that only goes forward and goes on while the
// machine sleeps.
type uptimeClock interface{ Uptime() time.Duration }

// A runClock tells how much real time of a session's window has elapsed. It never runs backwards and includes the time
// that the machine slept. On the machine's clock it is the monotonic clock plus what the machine slept; on any other it
// is what the clock shows, without steps back.
type runClock struct {
	base   uptime.Mark   // the reading at which the run was attached
	atBase time.Duration // what had elapsed by then
	slept  time.Duration // what the machine slept since
	last   time.Duration // what had elapsed at the last reading
	other  *otherClock   // nil is the machine's
}

// An otherClock is the host's, which may be set.
type otherClock struct {
	clock.Clock
	began time.Time
	meter verdict.MonotonicClock
}

// newRunClock starts at now, elapsed after the window's start.
func newRunClock(other clock.Clock, now time.Time, elapsed time.Duration) runClock {
	if other == nil {
		return runClock{base: uptime.Start(now), atBase: max(elapsed, 0), last: max(elapsed, 0)}
	}
	o := &otherClock{Clock: other, began: now}
	o.meter = verdict.NewMonotonicClock(elapsed, o.reading())
	return runClock{base: uptime.At(now), last: max(elapsed, 0), other: o}
}

// elapsedAt is what has elapsed, for who has just read the machine's clock.
func (c *runClock) elapsedAt(now time.Time) time.Duration {
	if c.other != nil {
		c.last = c.other.meter.Read(c.other.reading())
		return c.last
	}
	c.slept = max(c.slept, c.base.Slept(now))
	c.last = max(c.last, c.atBase+now.Sub(c.base.Time())+c.slept)
	return c.last
}

func (c *runClock) elapsed() time.Duration { return c.elapsedAt(time.Now()) }

// offset is what had elapsed at the base, with what the machine slept since.
func (c *runClock) offset() time.Duration { return c.atBase + c.slept }

func (o *otherClock) reading() time.Duration {
	if counter, ok := o.Clock.(uptimeClock); ok {
		return counter.Uptime()
	}
	return o.Now().Sub(o.began)
}

// patience is how long a timer of the session's own may wait. Where the machine's sleep shows in the clock but not in
// the timer, it waits no longer than until the next glance.
func (c *runClock) patience(wait time.Duration) time.Duration {
	counts := c.other == nil && !uptime.Exact
	if c.other != nil {
		_, counts = c.other.Clock.(uptimeClock)
	}
	if counts {
		return min(wait, glance)
	}
	return wait
}
