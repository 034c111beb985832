package storerows

import "time"

// RoundUp returns a duration in microseconds, rounded up, so that a minimum stays a minimum.
func RoundUp(d time.Duration) (microseconds int64) {
	microseconds = d.Microseconds()
	if d%time.Microsecond > 0 {
		microseconds++
	}
	return microseconds
}

// SetBack is by how much a clock has to have been set back for a pause of a start to end. One that was set back by
// less makes it late by at most so much.
const SetBack = 24 * time.Hour

// StartPause returns how long a claim or a pause of a start lasts: as it was asked for, but not less than no time, and
// not more than a day. One that would end later began before the clock was set back: see [SetBack].
func StartPause(asked time.Duration) time.Duration { return min(max(asked, 0), SetBack) }
