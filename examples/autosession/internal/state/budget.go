package state

import (
	"math"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A Budget is a session's budget in its file: the limits of its last run. They apply again unless the user sets others.
type Budget struct {
	// WallClockSeconds is 0 for no limit.
	WallClockSeconds float64   `json:"wall_clock_seconds"`
	WarnAt           []float64 `json:"warn_at"`
	ReserveSeconds   float64   `json:"reserve_seconds"`
}

// KeepBudget returns the file's form of a budget.
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

// length converts seconds to a duration, exact to the nanosecond as far as float64 is.
func length(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds * float64(time.Second)))
}
