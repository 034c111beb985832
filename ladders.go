package watchdog

import (
	"fmt"
	"slices"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

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
	// Loop is for a run that repeats itself, see [Watchdog.Step]: its first rung when that is found, again for another
	// loop, and the next ones when the run goes on with it. Nil is one DirectiveUnstuck.
	Loop []DirectiveKind
}

// A namedLadder is one of Ladders, with the limit that it is for.
type namedLadder struct {
	name  string
	limit verdict.Limit
	rungs *[]DirectiveKind
}

func (l *Ladders) listed() [11]namedLadder {
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
		{"Loop", verdict.Loop, &l.Loop},
	}
}

// none reports whether no limit has a ladder.
func (l *Ladders) none() bool {
	return len(l.Idle)+len(l.NoProgress)+len(l.Hold)+len(l.Tokens)+len(l.CallInput)+len(l.Cost)+len(l.Requests)+
		len(l.Turns)+len(l.ToolCalls)+len(l.Errors)+len(l.Loop) == 0
}

// copied are ladders that the host does not change.
func (l Ladders) copied() Ladders {
	for _, ladder := range l.listed() {
		*ladder.rungs = slices.Clone(*ladder.rungs)
	}
	return l
}

// heedsProgress reports whether a ladder that progress puts back is there without a limit that signals reset.
func (l *Ladders) heedsProgress() bool {
	if l.none() {
		return false
	}
	all := l.listed()
	return slices.ContainsFunc(all[:], func(one namedLadder) bool {
		return one.limit != verdict.Idle && one.limit != verdict.NoProgress && len(*one.rungs) > 0
	})
}

// checkLadders finds what can never take effect.
func (b *Budget) checkLadders() error {
	if b.Ladders.none() {
		return nil
	}
	for _, ladder := range b.Ladders.listed() {
		if b.hasNo(ladder.limit) && len(*ladder.rungs) > 0 {
			return fmt.Errorf("%w budget: Ladders.%s has rungs and the limit is off", ErrInvalid, ladder.name)
		}
		if err := checkRungs(ladder.name, *ladder.rungs); err != nil {
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
func (l Ladders) rungs() verdict.Ladders {
	if l.none() {
		return nil
	}
	all := verdict.Ladders{}
	for _, ladder := range l.listed() {
		all[ladder.limit] = directives(*ladder.rungs)
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
