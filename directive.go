package watchdog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A DirectiveKind is what the watchdog asks of the host. Its text is the last word of the kind of its event.
type DirectiveKind string

// The directives. Only DirectiveCancel ends the run.
const (
	// DirectiveWait asks the host to note it and go on.
	DirectiveWait = DirectiveKind(verdict.DirectWait)
	// DirectiveRetry asks the host to do the step again that does not come back.
	DirectiveRetry = DirectiveKind(verdict.DirectRetry)
	// DirectiveUnstuck asks the host to change its approach.
	DirectiveUnstuck = DirectiveKind(verdict.DirectUnstick)
	// DirectiveWrapUp asks the host to return what it has: only the reserve of a limit is left. It comes once a window
	// and limit, again after an extension, and is never written in a ladder.
	DirectiveWrapUp = DirectiveKind(verdict.DirectWrapUp)
	// DirectiveCancel says that the run has ended.
	DirectiveCancel = DirectiveKind(verdict.DirectCancel)
)

// ladderKinds are those that a ladder may have, in the order of their force.
func ladderKinds() []DirectiveKind {
	return []DirectiveKind{DirectiveWait, DirectiveRetry, DirectiveUnstuck, DirectiveCancel}
}

// A Directive is what one trip of a limit asks of the host: exactly one for each trip. A *Directive is an error: the
// cause of the context that [Watchdog.Try] gives to work which the host was asked to begin again.
type Directive struct {
	Kind DirectiveKind
	// RunID is the run that tripped.
	RunID string
	// Reason is the code of the limit that was exceeded, of which only the reserve is left, or that another guard
	// cancelled the run with.
	Reason StopReason
	// Rung is which rung of the limit's ladder this is, from 1, since the last progress: the next one with each trip,
	// until the last, which stays.
	Rung int
	// Used is what was used of the limit, Allowed what there was. Of a counted limit Usage says that; Used is then what
	// the wall clock showed, and Allowed 0.
	Used, Allowed time.Duration
	// Usage is how far the limit is used if it is a counted one, nil for a limit of time.
	Usage *Usage
	// Hold is the key of the hold whose cap or Idle was exceeded; Note the last thing noted, see [Watchdog.Note].
	Hold, Note string
	// Loop says in one sentence what the run repeats, see [loop.Verdict.String], for the model that is to stop that. It is
	// empty for other limits than loops, and in the Cancel.
	Loop string
	// At is when the trip was found, in UTC to the microsecond.
	At time.Time
	// ObserveOnly tells a Cancel that was recorded and not carried out, see [Config].
	ObserveOnly bool
	// Dropped is how many directives this reader lost before this one, because it did not come for them.
	Dropped int
}

// Error says what was asked of which run, and why.
func (d *Directive) Error() string {
	if d.Usage != nil {
		return fmt.Sprintf("run %s is asked to %s: %s, %s, attempt %d", d.RunID, strings.ReplaceAll(string(d.Kind), "_", " "),
			d.Reason, d.Usage, d.Rung)
	}
	return fmt.Sprintf("run %s is asked to %s: %s, %v of %v used, attempt %d", d.RunID,
		strings.ReplaceAll(string(d.Kind), "_", " "), d.Reason, d.Used, d.Allowed, d.Rung)
}

// A namedLadder is one of Ladders, with the limit that it is for.
type namedLadder struct {
	name  string
	limit verdict.Limit
	rungs []DirectiveKind
}

func (l *Ladders) listed() [11]namedLadder {
	return [...]namedLadder{
		{"Idle", verdict.Idle, l.Idle},
		{"NoProgress", verdict.NoProgress, l.NoProgress},
		{"Hold", verdict.Hold, l.Hold},
		{"Tokens", verdict.Tokens, l.Tokens},
		{"CallInput", verdict.CallInput, l.CallInput},
		{"Cost", verdict.Cost, l.Cost},
		{"Requests", verdict.Requests, l.Requests},
		{"Turns", verdict.Turns, l.Turns},
		{"ToolCalls", verdict.ToolCalls, l.ToolCalls},
		{"Errors", verdict.Errors, l.Errors},
		{"Loop", verdict.Loop, l.Loop},
	}
}

// none reports whether no limit has a ladder.
func (l *Ladders) none() bool {
	return len(l.Idle)+len(l.NoProgress)+len(l.Hold)+len(l.Tokens)+len(l.CallInput)+len(l.Cost)+len(l.Requests)+
		len(l.Turns)+len(l.ToolCalls)+len(l.Errors)+len(l.Loop) == 0
}

// heedsProgress reports whether a ladder that progress puts back is there without a limit that signals reset.
func (l *Ladders) heedsProgress() bool {
	if l.none() {
		return false
	}
	all := l.listed()
	return slices.ContainsFunc(all[:], func(one namedLadder) bool {
		return one.limit != verdict.Idle && one.limit != verdict.NoProgress && len(one.rungs) > 0
	})
}

// checkLadders finds what can never take effect.
func (b *Budget) checkLadders() error {
	if b.Ladders.none() {
		return nil
	}
	for _, ladder := range b.Ladders.listed() {
		if b.hasNo(ladder.limit) && len(ladder.rungs) > 0 {
			return fmt.Errorf("%w budget: Ladders.%s has rungs and the limit is off", ErrInvalid, ladder.name)
		}
		if err := checkRungs(ladder.name, ladder.rungs); err != nil {
			return err
		}
	}
	return nil
}

// hasNo reports whether the limit of a ladder is off. A hold may bring its own cap and idle, a scope its own limits.
func (b *Budget) hasNo(limit verdict.Limit) bool {
	return limit == verdict.NoProgress && off(b.NoProgress) == NoLimit
}

func checkRungs(name string, rungs []DirectiveKind) error {
	for i, rung := range rungs {
		if rung == DirectiveWrapUp {
			return fmt.Errorf("%w budget: Ladders.%s has %q, which comes by itself at a limit's Reserve", ErrInvalid, name, rung)
		}
		if !slices.Contains(ladderKinds(), rung) {
			return fmt.Errorf("%w budget: Ladders.%s has %q; a rung is one of %v", ErrInvalid, name, rung, ladderKinds())
		}
		if rung == DirectiveCancel && i < len(rungs)-1 {
			return fmt.Errorf("%w budget: Ladders.%s has a rung after %v, which ends the run", ErrInvalid, name, DirectiveCancel)
		}
	}
	return nil
}

// rungs are the ladders as the decision takes them, nil where there is none.
func (l Ladders) rungs() *verdict.Ladders {
	if l.none() {
		return nil
	}
	all := &verdict.Ladders{}
	for _, ladder := range l.listed() {
		*all.Place(ladder.limit) = directives(ladder.rungs)
	}
	return all
}

func directives(kinds []DirectiveKind) []verdict.Directive {
	all := make([]verdict.Directive, len(kinds))
	for i, kind := range kinds {
		all[i] = verdict.Directive(kind)
	}
	return all
}

// A Warning says that a run has used up a chosen fraction of its wall clock ([Budget].WarnAt) or of a counted limit
// ([Spend].WarnAt), so that it can wrap up. After an extension the fractions count anew, of the longer budget.
type Warning struct {
	RunID    string
	Fraction float64
	// Elapsed and Budget are of the window, extensions included. Remaining is as [Watchdog.Remaining] has it.
	// Of a counted limit Usage says that, Elapsed is what the wall clock showed, and the others are 0.
	Elapsed, Budget, Remaining time.Duration
	// Usage is how far a counted limit is used, nil for the wall clock.
	Usage *Usage
	// At is when the warning was due to be seen, in UTC to the microsecond.
	At time.Time
}
