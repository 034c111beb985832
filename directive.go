package watchdog

import (
	"fmt"
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
