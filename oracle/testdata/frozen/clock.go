package watchdog

import (
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/uptime"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// The machine may have slept: the timer and polls look at the clock at least this often.
const (
	glance     = time.Minute
	pollGlance = time.Second
)

// uptimeClock is what a [Config].Clock may have besides: a count that only goes forward and goes on while the machine
// sleeps.
type uptimeClock interface{ Uptime() time.Duration }

// A runClock tells how much real time of the window has elapsed. It never runs backwards and includes the time that the
// machine slept. On the machine's clock it is the monotonic clock plus what the machine slept; on any other it is what
// the clock shows, without steps back. The run's mutex guards all but base and other.
type runClock struct {
	base   uptime.Mark             // the reading at which the run was attached
	atBase time.Duration           // what had elapsed by then
	slept  time.Duration           // what the machine slept since
	other  clock.Clock             // the host's; nil is the machine's
	meter  *verdict.MonotonicClock // of other
	moment time.Duration           // what elapsed returns meanwhile; 0 is what it reads
}

// newRunClock starts at now, elapsed after the window's start.
func newRunClock(other clock.Clock, now time.Time, elapsed time.Duration) runClock {
	if other == nil {
		return runClock{base: uptime.Start(now), atBase: max(elapsed, 0)}
	}
	c := runClock{base: uptime.At(now), other: other}
	meter := verdict.NewMonotonicClock(elapsed, c.reading())
	c.meter = &meter
	return c
}

// now is the wall clock, for what people and databases read.
func (c *runClock) now() time.Time { return clocks.Now(c.other) }

// hold has everything until release be at one moment, for a change and the looks around it: the clock is read once.
func (c *runClock) hold() { c.moment = c.elapsed() }

// holdBegin is hold for a run that begins at this moment.
func (c *runClock) holdBegin() { c.moment = c.atBase }

func (c *runClock) release() { c.moment = 0 }

// elapsed reads every clock there is.
func (c *runClock) elapsed() time.Duration {
	if c.moment != 0 {
		return c.moment
	}
	if c.other != nil {
		return c.meter.Read(c.reading())
	}
	return c.elapsedAt(time.Now())
}

// elapsedAt is elapsed for who has just read the machine's clock.
func (c *runClock) elapsedAt(now time.Time) time.Duration {
	if c.other != nil {
		return c.elapsed()
	}
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

// patience is how long a timer of the run's own may wait. Where the machine's sleep shows in the clock but not in the
// timer, it waits no longer than until the next glance.
func (c *runClock) patience(wait time.Duration) time.Duration {
	_, counts := c.other.(uptimeClock)
	if counts || c.other == nil && !uptime.Exact {
		return min(wait, glance)
	}
	return wait
}
