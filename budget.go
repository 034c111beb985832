package watchdog

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/internal/ordered"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// DefaultWallClock is the wall-clock budget of a [Budget] that names none.
const DefaultWallClock = 4 * time.Hour

// DefaultWarnAt is the fraction of the wall-clock budget at which a run is warned where the [Budget] names none.
const DefaultWarnAt = 0.8

// maxWarnings is how many fractions a [Budget] may warn at.
const maxWarnings = 100

// NoLimit is how "no limit" is spelled in every package, for lengths of time and for counts. It has no type, so that it
// fits both. Nothing is logged about it. (In files and in the environment 0 switches a limit off; in Go the zero value
// of a field is its documented default: see the package documentation.)
const NoLimit = math.MaxInt64

// None is how a length of zero is spelled where the zero value is a default: no grace, no delay, no minimum age. The
// field says that it takes it.
const None = -1

// A Budget holds the limits of a run. A limit is exceeded when more than it was used: at the limit itself the run has
// not fired, one nanosecond later it has. The zero value is the default of every limit: a wall clock of four hours and
// no other.
type Budget struct {
	// WallClock is how long a window may last in real time, across restarts and with the time that the machine slept.
	// Zero means [DefaultWallClock], for a [Watchdog.Layer] no limit of its own; [NoLimit] means none.
	WallClock time.Duration
	// WarnAt holds the fractions of WallClock, each between 0 and 1, at which the run is warned, so that it can wrap
	// up; at most 100. Nil means [DefaultWarnAt], an empty slice no warnings.
	WarnAt []float64
	// Reserve is the part of WallClock that the host keeps for returning what it has. Where it begins comes one
	// [DirectiveWrapUp], and until then [Watchdog.Remaining], and whatever is bounded inside the run, ends that much
	// earlier; afterwards both count to WallClock, at which the run fires. Zero means no reserve.
	Reserve time.Duration
	// Safety is how long the run may last from this attach, whatever happens: nothing resets, suspends or extends it.
	// Zero and [NoLimit] mean no limit.
	Safety time.Duration
	// Idle is how long the run may give no sign of life, see [Watchdog.Activity]. Zero and [NoLimit] mean no limit. The
	// WallClock of four hours holds beside it: a run that may last for ever as long as it is active has a WallClock of
	// NoLimit. While a hold is open, its own Idle counts instead, see [HoldLimit].
	Idle time.Duration
	// NoProgress is how long the run may go on without getting anywhere, however active it is, see
	// [Watchdog.Progress]. Zero and [NoLimit] mean no limit.
	NoProgress time.Duration
	// Hold is the cap of a hold that names none, see [Watchdog.Hold]. Zero and [NoLimit] mean no cap.
	Hold time.Duration
	// FromFirstSign has Idle and NoProgress begin at the first signal of this attach instead of at the attach itself.
	FromFirstSign bool
	// FirstSign is how long the run may take to its first signal where FromFirstSign is set. Zero and [NoLimit]
	// mean no limit.
	FirstSign time.Duration
	// Spend limits what the run may use besides time. The zero value has no limit.
	Spend Spend
	// Ladders say what the trips of a limit ask for, one after the other. The zero value ends the run at once.
	Ladders Ladders
}

// Validate returns an error that wraps [ErrInvalid] and names the field when a limit is negative, the reserve leaves no
// time to work, a warning lies outside 0 to 1, is named twice or is one of more than 100, or a setting can never take
// effect: a ladder of a limit that is off, a rung after [DirectiveCancel], FirstSign without FromFirstSign or that
// without a limit to begin.
func (b Budget) Validate() error {
	return b.check()
}

func (b *Budget) check() error {
	return errors.Join(b.checkLengths(), b.checkWarnings(), b.checkFirstSign(), b.Spend.check(), b.checkLadders())
}

func (b *Budget) checkLengths() error {
	if name, length := negative("WallClock Reserve Safety Idle NoProgress Hold FirstSign",
		b.WallClock, b.Reserve, b.Safety, b.Idle, b.NoProgress, b.Hold, b.FirstSign); length < 0 {
		zero := "no limit"
		switch name {
		case "WallClock":
			zero = DefaultWallClock.String()
		case "Reserve":
			zero = "0s"
		}
		return fmt.Errorf("%w budget: %s is %v; use a positive duration, or 0 for %s", ErrInvalid, name, length, zero)
	}
	if wall := b.wallClock(); b.Reserve >= wall {
		return fmt.Errorf("%w budget: Reserve of %v leaves nothing of WallClock %v to work in", ErrInvalid, b.Reserve, wall)
	}
	return nil
}

// negative returns the first value that is below zero, and its name, or 0.
func negative[N ~int64](names string, values ...N) (name string, value N) {
	for i, value := range values {
		if value < 0 {
			return strings.Fields(names)[i], value
		}
	}
	return "", 0
}

func (b *Budget) checkWarnings() error { return checkFractions("WarnAt", "WallClock", b.WarnAt) }

func checkFractions(field, of string, fractions []float64) error {
	if len(fractions) > maxWarnings {
		return fmt.Errorf("%w budget: %s has %d fractions; use at most %d", ErrInvalid, field, len(fractions), maxWarnings)
	}
	for i, fraction := range fractions {
		if !(fraction > 0 && fraction < 1) {
			return fmt.Errorf("%w budget: %s has %v; a warning comes at more than 0 and less than 1 of %s",
				ErrInvalid, field, fraction, of)
		}
		if slices.Contains(fractions[:i], fraction) {
			return fmt.Errorf("%w budget: %s has %v twice", ErrInvalid, field, fraction)
		}
	}
	return nil
}

func (b *Budget) checkFirstSign() error {
	switch {
	case !b.FromFirstSign && off(b.FirstSign) != NoLimit:
		return fmt.Errorf("%w budget: FirstSign is %v and takes effect only with FromFirstSign", ErrInvalid, b.FirstSign)
	case b.FromFirstSign && off(b.Idle) == NoLimit && off(b.NoProgress) == NoLimit:
		return fmt.Errorf("%w budget: FromFirstSign takes effect only with Idle or NoProgress", ErrInvalid)
	}
	return nil
}

func (b *Budget) wallClock() time.Duration {
	if b.WallClock == 0 {
		return DefaultWallClock
	}
	return b.WallClock
}

// off is the length of a limit whose default is none.
func off(limit time.Duration) time.Duration {
	if limit == 0 {
		return NoLimit
	}
	return limit
}

var defaultWarnAt = []float64{DefaultWarnAt}

// limits are the budget as the decision takes it. The budget is valid.
func (b *Budget) limits() verdict.Limits {
	warnAt := b.warnAt()
	if b.WarnAt != nil {
		warnAt = inOrder(warnAt)
	}
	return verdict.Limits{
		WallClock: b.wallClock(), WarnAt: warnAt, Reserve: b.Reserve, Safety: off(b.Safety),
		Idle: off(b.Idle), NoProgress: off(b.NoProgress),
		FromFirstSign: b.FromFirstSign, FirstSign: off(b.FirstSign), Ladders: b.Ladders.rungs(),
		Counts: b.Spend.limits(""),
	}
}

// inOrder returns the fractions in order, and a copy: the host may change its own.
func inOrder(fractions []float64) []float64 {
	fractions = slices.Clone(fractions)
	ordered.Sort(fractions, cmp.Compare)
	return fractions
}

func (b *Budget) warnAt() []float64 {
	if b.WarnAt == nil {
		return defaultWarnAt
	}
	return b.WarnAt
}

// heedsSignals reports whether the budget has a limit that signals reset, or a ladder that progress puts back.
func (b *Budget) heedsSignals() bool {
	return off(b.Idle) != NoLimit || off(b.NoProgress) != NoLimit || b.Ladders.heedsProgress()
}

// sharedLimits are what runs of one budget have in common. They do not change.
type sharedLimits struct {
	verdict.Limits
	holdCap  time.Duration
	currency string // of the limit of cost
}

// lastLimits are those of the last run, for the next one: hosts give most of their runs the same budget.
var lastLimits atomic.Pointer[sharedLimits]

// shared is limits without a copy for each run.
func (b *Budget) shared() *sharedLimits {
	if last := lastLimits.Load(); last != nil && b.same(last) {
		return last
	}
	limits := &sharedLimits{b.limits(), off(b.Hold), b.Spend.Cost.Currency}
	lastLimits.Store(limits)
	return limits
}

// plain reports whether there are neither ladders nor counted limits.
func (l *sharedLimits) plain() bool { return l.Ladders == nil && len(l.Counts) == 0 }

// same reports whether limits of the budget are these. Those with ladders or counted limits are not
// looked into.
func (b *Budget) same(l *sharedLimits) bool {
	return l.plain() && b.Ladders.none() && b.Spend.none() &&
		slices.Equal(l.WarnAt, b.warnAt()) && l.WallClock == b.wallClock() && l.Safety == off(b.Safety) &&
		l.Idle == off(b.Idle) && l.NoProgress == off(b.NoProgress) &&
		l.FromFirstSign == b.FromFirstSign && l.FirstSign == off(b.FirstSign) &&
		l.Reserve == b.Reserve && l.holdCap == off(b.Hold)
}
