package watchdog

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
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
	//
	// A pause of this process is nobody's silence. A timer of silence that rings late by more than a quarter of its limit,
	// at least 50 ms and at most 5 s, says that the process did not run: it was stopped, frozen, starved or suspended.
	// Then nothing ends for a grace of that length, in which what waits can be read. A sign of life in it begins the
	// silence again; without one the run is silent since the last. After three graces without a sign there is none. The
	// same holds for NoProgress, not for the limits of time.
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
func (b Budget) Validate() error { return b.check() }

func (b *Budget) check() error {
	return errors.Join(b.checkLengths(), checkFractions("WarnAt", "WallClock", b.WarnAt), b.Spend.check(),
		b.checkLadders())
}

func (b *Budget) checkLengths() error {
	for _, of := range [...]struct {
		name   string
		length time.Duration
		zero   any
	}{
		{"WallClock", b.WallClock, DefaultWallClock}, {"Reserve", b.Reserve, time.Duration(0)},
		{"Safety", b.Safety, "no limit"}, {"Idle", b.Idle, "no limit"}, {"NoProgress", b.NoProgress, "no limit"},
		{"Hold", b.Hold, "no limit"}, {"FirstSign", b.FirstSign, "no limit"},
	} {
		if of.length < 0 {
			return fmt.Errorf("%w budget: %s is %v; use a positive duration, or 0 for %v", ErrInvalid, of.name, of.length,
				of.zero)
		}
	}
	switch wall := b.wallClock(); {
	case b.Reserve >= wall:
		return fmt.Errorf("%w budget: Reserve of %v leaves nothing of WallClock %v to work in", ErrInvalid, b.Reserve, wall)
	case !b.FromFirstSign && off(b.FirstSign) != NoLimit:
		return fmt.Errorf("%w budget: FirstSign is %v and takes effect only with FromFirstSign", ErrInvalid, b.FirstSign)
	case b.FromFirstSign && off(b.Idle) == NoLimit && off(b.NoProgress) == NoLimit:
		return fmt.Errorf("%w budget: FromFirstSign takes effect only with Idle or NoProgress", ErrInvalid)
	}
	return nil
}

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

func (b *Budget) wallClock() time.Duration { return cmp.Or(b.WallClock, DefaultWallClock) }

// off is the length of a limit whose default is none.
func off(limit time.Duration) time.Duration { return cmp.Or(limit, NoLimit) }

var defaultWarnAt = []float64{DefaultWarnAt}

// limits are the budget as the decision takes it. The budget is valid.
func (b *Budget) limits() verdict.Limits {
	return verdict.Limits{
		WallClock: b.wallClock(), WarnAt: inOrder(b.WarnAt), Reserve: b.Reserve, Safety: off(b.Safety),
		Idle: off(b.Idle), NoProgress: off(b.NoProgress),
		FromFirstSign: b.FromFirstSign, FirstSign: off(b.FirstSign), Ladders: b.Ladders.rungs(),
		Counts: b.Spend.limits(),
	}
}

// inOrder returns the fractions in order, the default for nil, and a copy: the host may change its own.
func inOrder(fractions []float64) []float64 {
	if fractions == nil {
		return defaultWarnAt
	}
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

func (l *sharedLimits) plain() bool { return l.Ladders == nil && len(l.Counts) == 0 }

// same reports whether limits of the budget are these. Those with ladders or counted limits are not looked into.
func (b *Budget) same(l *sharedLimits) bool {
	lengths := [...]time.Duration{
		b.wallClock(), b.Reserve, off(b.Safety), off(b.Idle), off(b.NoProgress), off(b.Hold), off(b.FirstSign),
	}
	kept := [...]time.Duration{
		l.WallClock, l.Reserve, l.Safety, l.Idle, l.NoProgress, l.holdCap, l.FirstSign,
	}
	return lengths == kept && l.plain() && b.Ladders.none() && b.Spend.none() && slices.Equal(l.WarnAt, b.warnAt()) &&
		l.FromFirstSign == b.FromFirstSign && l.currency == b.Spend.Cost.Currency
}

// Ladders hold the directives of a limit's trips, in order. After its last one comes [DirectiveCancel], so that an
// empty ladder ends the run at once. Progress puts a ladder back to its first rung. The wall clock and safety have
// none.
//
// A ladder that ends in [DirectiveWait] notifies and goes on: it never ends the run, and nothing follows its last rung
// in the same stretch. Of Idle a stretch ends with the next activity, the opening or closing of a hold, or an attach,
// of NoProgress with progress or an attach, of Hold with the hold. The next stretch that is too long has that rung
// again. Write DirectiveCancel after DirectiveWait to have the run end after it.
type Ladders struct {
	// Idle is for the trips of [Budget].Idle, of FirstSign and of the Idle of a [HoldLimit].
	Idle []DirectiveKind
	// NoProgress is for those of [Budget].NoProgress, Hold for those of the cap of a hold, each hold by itself.
	NoProgress, Hold []DirectiveKind
	// The others are for those of the limits of [Spend]: a call that did not fit, and one that used more than was left.
	// After a last rung of DirectiveWait nothing follows before the limit is extended. Tokens is for tokens in, out and
	// in all, ToolCalls for Tools too, Errors for Retries too.
	Tokens, CallInput, Cost, Requests, Turns, ToolCalls, Errors []DirectiveKind
}

// A namedLadder is one of Ladders, with the limit that it is for.
type namedLadder struct {
	name  string
	limit verdict.Limit
	rungs *[]DirectiveKind
}

func (l *Ladders) listed() [10]namedLadder {
	return [...]namedLadder{
		{"Idle", verdict.Idle, &l.Idle},
		{"NoProgress", verdict.NoProgress, &l.NoProgress},
		{"Hold", verdict.Hold, &l.Hold},
		{"Tokens", "tokens", &l.Tokens},
		{"CallInput", "call_input", &l.CallInput},
		{"Cost", "cost", &l.Cost},
		{"Requests", "requests", &l.Requests},
		{"Turns", "turns", &l.Turns},
		{"ToolCalls", "tool_calls", &l.ToolCalls},
		{"Errors", "errors", &l.Errors},
	}
}

func (l *Ladders) none() bool {
	return len(l.Idle)+len(l.NoProgress)+len(l.Hold)+len(l.Tokens)+len(l.CallInput)+len(l.Cost)+len(l.Requests)+
		len(l.Turns)+len(l.ToolCalls)+len(l.Errors) == 0
}

// heedsProgress reports whether a ladder that progress puts back is there without a limit that signals reset.
func (l *Ladders) heedsProgress() bool {
	others := *l
	others.Idle, others.NoProgress = nil, nil
	return !others.none()
}

// checkLadders finds what can never take effect.
func (b *Budget) checkLadders() error {
	if b.Ladders.none() {
		return nil
	}
	for _, ladder := range b.Ladders.listed() {
		// The others can be on all the same: a hold may bring its own cap and idle.
		if ladder.limit == verdict.NoProgress && off(b.NoProgress) == NoLimit && len(*ladder.rungs) > 0 {
			return fmt.Errorf("%w budget: Ladders.%s has rungs and the limit is off", ErrInvalid, ladder.name)
		}
		if err := checkRungs(ladder.name, *ladder.rungs); err != nil {
			return err
		}
	}
	return nil
}

func checkRungs(name string, rungs []DirectiveKind) error {
	for i, rung := range rungs {
		switch {
		case rung == DirectiveWrapUp:
			return fmt.Errorf("%w budget: Ladders.%s has %q, which comes by itself at a limit's Reserve", ErrInvalid, name, rung)
		case !slices.Contains(ladderKinds, rung):
			return fmt.Errorf("%w budget: Ladders.%s has %q; a rung is one of %v", ErrInvalid, name, rung, ladderKinds)
		case rung == DirectiveCancel && i < len(rungs)-1:
			return fmt.Errorf("%w budget: Ladders.%s has a rung after %v, which ends the run", ErrInvalid, name, DirectiveCancel)
		}
	}
	return nil
}

// rungs are the ladders as the decision takes them, nil where there is none.
func (l Ladders) rungs() verdict.Ladders {
	if l.none() {
		return nil
	}
	all := verdict.Ladders{}
	for _, ladder := range l.listed() {
		rungs := make([]verdict.Directive, len(*ladder.rungs))
		for i, kind := range *ladder.rungs {
			rungs[i] = verdict.Directive(kind)
		}
		all[ladder.limit] = rungs
	}
	return all
}
