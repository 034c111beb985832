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

// certain returns how much of a length by the database's clock is certain at the instant now: no more than has gone by
// since that clock was set forward.
func (c *databaseClock) certain(length, now time.Duration) time.Duration {
	if !c.stepped {
		return length
	}
	return min(length, now-c.steppedAt)
}

// clock returns the time since the sweeper was made, by a clock that nobody sets.
func (s *Sweeper) clock() time.Duration { return time.Since(s.madeAt) }

// readClock notes what the database's clock showed in an answer that began and ended at two instants.
func (w *walk) readClock(began, ended time.Duration, shown time.Time) {
	step := w.database.read(began, ended, shown)
	if step == 0 {
		return
	}
	direction := "forward"
	if step < 0 {
		direction = "back"
	}
	w.logger().Warn("the clock of the database was set; silence by it is not certain for a while",
		"step", step, "direction", direction)
	w.addStep(step)
}

// certain returns how much of a length by the database's clock is certain now.
func (w *walk) certain(length time.Duration) time.Duration {
	return w.database.certain(length, w.clock())
}
