package verdict

import "time"

// A ClockReading is what another clock shows between two instants of the own clock.
type ClockReading struct {
	Began, Ended, Shown time.Duration
}

// Two clocks that nobody sets may drift apart by a thousandth: NTP slews a clock by at most half of that. Below the
// shortest step a clock that was set is not told from one that answered late; it is less than any sensible threshold.
const (
	shortestStep = 5 * time.Second
	drift        = 1000
)

// ClockStep returns by how much the other clock was set between two readings, or 0 if it went on as the own clock did.
// It is negative if the clock was set back.
func ClockStep(before, after ClockReading) time.Duration {
	advance := after.Shown - before.Shown
	least, most := after.Began-before.Ended, after.Ended-before.Began
	tolerance := shortestStep + most/drift
	switch {
	case advance > most+tolerance:
		return advance - most
	case advance < least-tolerance:
		return advance - least
	}
	return 0
}
