// Package uptime counts the time that the machine slept, which Go's monotonic clock leaves out on most systems: a run
// that was suspended with its machine for eight hours has used eight hours of its budget.
//
// On Linux the count is exact, the difference of two kernel clocks that no one can set. Elsewhere a wall clock that
// ran ahead of the monotonic one by more than ten seconds is taken for sleep, so that a clock set forward counts as sleep too.
//
// The package does not measure elapsed time: that is the monotonic clock's, to which the caller adds what it finds here.
package uptime

import "time"

// A Mark remembers a moment, to tell how long the machine slept since. Methods may be called concurrently.
type Mark struct {
	at      time.Time
	slept   time.Duration
	machine bool
}

// At marks a moment of a clock that is not the machine's.
func At(now time.Time) Mark { return Mark{at: now} }

// Time returns the moment.
func (m Mark) Time() time.Time { return m.at }

// Since returns the monotonic time since the moment, without what the machine slept.
func (m Mark) Since() time.Duration { return time.Since(m.at) }

// Machine reports whether the moment was read from the machine's clock, as opposed to the fake one of a
// testing/synctest bubble. Where that cannot be known it reports false.
func (m Mark) Machine() bool { return m.machine }

// gap is how far the wall clock of two readings ran ahead of their monotonic one.
func gap(from, to time.Time) time.Duration {
	return to.Round(0).Sub(from.Round(0)) - to.Sub(from)
}
