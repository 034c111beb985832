package state

import (
	"math"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A Budget is the budget of a session as its file has it: the limits that were in force when it was last run, so that it
// keeps them where no one says otherwise.
type Budget struct {
	// WallClockSeconds is 0 where there is no limit.
	WallClockSeconds float64   `json:"wall_clock_seconds"`
	WarnAt           []float64 `json:"warn_at"`
	ReserveSeconds   float64   `json:"reserve_seconds"`
}

// KeepBudget returns what a file keeps of limits in force.
func KeepBudget(b watchdog.Budget) Budget {
	kept := Budget{WarnAt: b.WarnAt, ReserveSeconds: b.Reserve.Seconds()}
	switch b.WallClock {
	case watchdog.NoLimit:
	case 0:
		kept.WallClockSeconds = watchdog.DefaultWallClock.Seconds()
	default:
		kept.WallClockSeconds = b.WallClock.Seconds()
	}
	return kept
}

// Limits returns the budget for the watchdog.
func (b Budget) Limits() watchdog.Budget {
	limits := watchdog.Budget{WallClock: length(b.WallClockSeconds), WarnAt: b.WarnAt, Reserve: length(b.ReserveSeconds)}
	if limits.WallClock == 0 {
		limits.WallClock = watchdog.NoLimit
	}
	return limits
}

// length is the duration of a number of seconds, exact to the nanosecond for as long as a float64 is.
func length(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}
