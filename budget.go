package watchdog

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// DefaultWallClock is the wall-clock budget of a [Budget] that names none.
const DefaultWallClock = 4 * time.Hour

// DefaultWarnAt is the fraction of the wall-clock budget at which a run is warned where the [Budget] names none.
const DefaultWarnAt = 0.8

// NoLimit switches a limit of a [Budget] off. (In files and in the environment 0 does; in Go the zero value of a
// limit is its default.)
const NoLimit time.Duration = math.MaxInt64

// ErrInvalidBudget is wrapped by what [Budget.Validate], and so [New] and [Resume], returns for limits that cannot be kept.
var ErrInvalidBudget = errors.New("invalid budget")

// A Budget holds the limits of a run. A limit is exceeded when more than it was used: at the limit itself the run has
// not fired, one nanosecond later it has. The zero value is the default of every limit.
type Budget struct {
	// WallClock is how long a window may last in real time, across restarts and with the time that the machine slept.
	// Zero means [DefaultWallClock], [NoLimit] no limit.
	WallClock time.Duration
	// WarnAt holds the fractions of WallClock, each between 0 and 1, at which the run is warned, so that it can wrap
	// up. Nil means [DefaultWarnAt], an empty slice no warnings.
	WarnAt []float64
	// Reserve is the part of WallClock that the host keeps for saving its state: [Watchdog.Remaining], and whatever is
	// bounded inside the run, ends that much earlier. The run itself fires at WallClock. Zero means no reserve.
	Reserve time.Duration
}

// Validate returns an error that wraps [ErrInvalidBudget] and names the field when a limit is negative, the reserve leaves no time
// to work, or a warning lies outside 0 to 1 or is named twice.
func (b Budget) Validate() error {
	b = b.withDefaults()
	switch {
	case b.WallClock < 0:
		return fmt.Errorf("%w: WallClock is %v; use a positive duration, 0 for %v or NoLimit", ErrInvalidBudget, b.WallClock, DefaultWallClock)
	case b.Reserve < 0:
		return fmt.Errorf("%w: Reserve is %v; use 0 or a positive duration", ErrInvalidBudget, b.Reserve)
	case b.Reserve >= b.WallClock:
		return fmt.Errorf("%w: Reserve of %v leaves nothing of WallClock %v to work in", ErrInvalidBudget, b.Reserve, b.WallClock)
	}
	for i, fraction := range b.WarnAt {
		if !(fraction > 0 && fraction < 1) {
			return fmt.Errorf("%w: WarnAt has %v; a warning comes at more than 0 and less than 1 of WallClock", ErrInvalidBudget, fraction)
		}
		if slices.Contains(b.WarnAt[:i], fraction) {
			return fmt.Errorf("%w: WarnAt has %v twice", ErrInvalidBudget, fraction)
		}
	}
	return nil
}

func (b Budget) withDefaults() Budget {
	if b.WallClock == 0 {
		b.WallClock = DefaultWallClock
	}
	if b.WarnAt == nil {
		b.WarnAt = defaultWarnAt
	}
	return b
}

var defaultWarnAt = []float64{DefaultWarnAt}

// limits are the budget as the decision takes it. The budget is valid.
func (b Budget) limits() verdict.Limits {
	warnAt := defaultWarnAt
	if b.WarnAt != nil {
		warnAt = slices.Sorted(slices.Values(b.WarnAt))
	}
	return verdict.Limits{WallClock: b.withDefaults().WallClock, WarnAt: warnAt}
}
