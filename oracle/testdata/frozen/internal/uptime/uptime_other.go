//go:build !linux

package uptime

import "time"

// Exact says that sleep is measured exactly. Then a [Mark] knows whether it comes from the machine's clock.
const Exact = false

// minSleep is the smallest difference between wall and monotonic clock that counts as sleep.
const minSleep = 10 * time.Second

// Start marks the moment now, which the caller just read with [time.Now].
func Start(now time.Time) Mark { return Mark{at: now} }

// Slept returns how long the machine slept from the mark to now, which the caller just read with [time.Now].
func (m Mark) Slept(now time.Time) time.Duration {
	if ahead := wallAhead(m.at, now); ahead > minSleep {
		return ahead
	}
	return 0
}
