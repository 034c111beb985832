// Package uptime measures how long the machine slept. Go's monotonic clock leaves sleep out on most systems, but a run
// that was suspended with its machine for eight hours has used eight hours of its budget.
//
// On Linux the result is exact: the difference of two kernel clocks that nobody can set. Elsewhere the package compares
// the wall clock with the monotonic clock. If the wall clock ran ahead by more than ten seconds, that counts as sleep,
// even if somebody set the clock forward.
//
// The package does not measure elapsed time: the caller adds the sleep to the monotonic clock's time.
package uptime

import "time"

// A Mark remembers a moment, so that it can tell how long the machine slept since. It is safe for concurrent use.
type Mark struct {
	at      time.Time
	slept   time.Duration
	machine bool
}

// At marks a moment of a clock other than the machine's.
func At(now time.Time) Mark { return Mark{at: now} }

// Time returns the moment.
func (m Mark) Time() time.Time { return m.at }

// Since returns the monotonic time since the moment. It leaves out the machine's sleep.
func (m Mark) Since() time.Duration { return time.Since(m.at) }

// Machine reports whether the moment comes from the machine's clock, and not from the fake clock of a testing/synctest
// bubble. It reports false if that is unknown.
func (m Mark) Machine() bool { return m.machine }

// wallAhead returns how far the wall clock ran ahead of the monotonic clock between two readings.
func wallAhead(from, to time.Time) time.Duration {
	return to.Round(0).Sub(from.Round(0)) - to.Sub(from)
}
