//go:build !linux

package uptime

import "time"

// Exact says that sleep is counted exactly, and so that a [Mark] knows the machine's clock.
const Exact = false

// coarse is the least difference of wall and monotonic clock that is taken for sleep.
const coarse = 10 * time.Second

// Start marks the moment now, which was just read with [time.Now].
func Start(now time.Time) Mark { return Mark{at: now} }

// Slept returns how long the machine slept from the mark to now, which was just read with [time.Now].
func (m Mark) Slept(now time.Time) time.Duration {
	if ahead := gap(m.at, now); ahead > coarse {
		return ahead
	}
	return 0
}
