package storerows

import (
	"fmt"
	"math"
	"time"
)

// RoundUp returns a duration in microseconds, rounded up, so that a minimum stays a minimum.
func RoundUp(d time.Duration) (microseconds int64) {
	microseconds = d.Microseconds()
	if d%time.Microsecond > 0 {
		microseconds++
	}
	return microseconds
}

// CheckClaim returns an error if a claim of notices is for fewer than one, or for less than no time.
func CheckClaim(most int, lasts time.Duration) error {
	switch {
	case most < 1:
		return fmt.Errorf("claim notices: at most %d were asked for; ask for at least 1", most)
	case lasts < 0:
		return fmt.Errorf("claim notices: the claim lasts %v; use a positive duration, or 0", lasts)
	}
	return nil
}

// SetBack is by how much a clock has to have been set back for a pause of a notice to end. One that was set back by
// less makes it late by at most so much.
const SetBack = 24 * time.Hour

// LongestWait is the longest time that notices have waited, in microseconds. It fits into a [time.Duration].
const LongestWait = int64(math.MaxInt64 / time.Microsecond)

// CheckPause returns an error if a notice is to be due before now.
func CheckPause(id string, pause time.Duration) error {
	if pause < 0 {
		return fmt.Errorf("delay notice %s: the pause is %v; use a positive duration, or 0", id, pause)
	}
	return nil
}

// StartPause returns how long a claim or a pause of a start lasts: as it was asked for, but not less than no time, and
// not more than a day. One that would end later began before the clock was set back: see [SetBack].
func StartPause(asked time.Duration) time.Duration { return min(max(asked, 0), SetBack) }
