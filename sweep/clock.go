package sweep

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A databaseClock compares the database's clock with the sweeper's.
type databaseClock struct {
	first time.Time            // what it showed first
	last  verdict.ClockReading // if first is set
	// steppedAt is when a step forward was seen, by the sweeper's clock.
	stepped   bool
	steppedAt time.Duration
}

// read takes what the database's clock showed between two instants, and returns by how much it was set since the last
// time, or 0.
func (c *databaseClock) read(began, ended time.Duration, shown time.Time) (step time.Duration) {
	if c.first.IsZero() {
		c.first = shown
	} else {
		step = verdict.ClockStep(c.last, verdict.ClockReading{Began: began, Ended: ended, Shown: shown.Sub(c.first)})
	}
	c.last = verdict.ClockReading{Began: began, Ended: ended, Shown: shown.Sub(c.first)}
	if step > 0 {
		c.stepped, c.steppedAt = true, ended
	}
	return step
}

// now returns what the clock shows at the instant now, after it was read.
func (c *databaseClock) now(now time.Duration) time.Time {
	return c.first.Add(c.last.Shown + now - c.last.Ended)
}

// certain returns how much of a length by the database's clock is certain at the instant now: no more than has gone by
// since that clock was set forward.
func (c *databaseClock) certain(length, now time.Duration) time.Duration {
	if !c.stepped {
		return length
	}
	return min(length, now-c.steppedAt)
}
