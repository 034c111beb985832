package watchdog

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/internal/wording"
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
var ladderKinds = []DirectiveKind{DirectiveWait, DirectiveRetry, DirectiveUnstuck, DirectiveCancel}

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
	// At is when the trip was found, in UTC to the microsecond.
	At time.Time
	// ObserveOnly tells a Cancel that was recorded and not carried out, see [Config].
	ObserveOnly bool
	// Dropped is how many directives this reader lost before this one, because it did not come for them.
	Dropped int
}

// Error says what was asked of which run, and why.
func (d *Directive) Error() string {
	used := fmt.Sprintf("%v of %v used", d.Used, d.Allowed)
	if d.Usage != nil {
		used = d.Usage.String()
	}
	return fmt.Sprintf("run %s is asked to %s: %s, %s, attempt %d", d.RunID,
		strings.ReplaceAll(string(d.Kind), "_", " "), d.Reason, used, d.Rung)
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

// A Stop says why and when a watchdog ended a run. It is an error: the cause of the run's context, see [context.Cause].
// errors.Is finds its Code in it, errors.As the Stop. A stop by a limit of time is a timeout, for errors.Is and as a
// [net.Error], see [StopReason.Timeout]; a stop by another guard is none. Every process that attaches to the run gets
// the same one, read from the cancel event. It must not be changed.
type Stop struct {
	// Code is the stable code of the limit that was exceeded, or that another guard cancelled the run with, see
	// [Watchdog.Cancel].
	Code StopReason
	// RunID is the run that was stopped, empty for a guard without a run; Parent the run that it is a layer of, or empty.
	RunID, Parent string
	// StartedAt is the start of the window, FiredAt when it ended, in UTC to the microsecond.
	StartedAt, FiredAt time.Time
	// Elapsed is what was used of the limit, Budget what there was; 0 where the guard that cancelled the run has none.
	Elapsed, Budget time.Duration
	// Paused is how long holds had stopped the wall clock, which Elapsed leaves out.
	Paused time.Duration
	// Hold is the key of the hold whose cap or Idle was exceeded, Note the last thing noted before, see [Watchdog.Note].
	Hold, Note string
	// Rung is which rung of the limit's ladder it was, from 1.
	Rung int
	// Usage is how far the limit was used if it is a counted one, nil for a limit of time. Elapsed is then what the wall
	// clock showed, and Budget 0.
	Usage *Usage

	window  string // the name of a layer's window
	forgets bool   // nobody finds the run again
}

// StopOf returns the stop of the run with an ID that is err, or that err wraps, nil if there is none. errors.As finds
// the first stop of any run: also that of a [Watchdog.Layer], such as a tool, which a loop returned while its run goes
// on.
func StopOf(err error, runID string) *Stop {
	if stop, ok := err.(*Stop); ok && stop.RunID == runID { //nolint:errorlint // it looks at each error in the tree
		return stop
	}
	switch wrapper := err.(type) { //nolint:errorlint // likewise
	case interface{ Unwrap() error }:
		return StopOf(wrapper.Unwrap(), runID)
	case interface{ Unwrap() []error }:
		for _, one := range wrapper.Unwrap() {
			if stop := StopOf(one, runID); stop != nil {
				return stop
			}
		}
	}
	return nil
}

// Error says which run was stopped, by which limit or guard, what it was doing, and what to do.
func (s *Stop) Error() string {
	doing := s.usage()
	if s.Note != "" {
		doing += fmt.Sprintf(", last noted %q", s.Note)
	}
	then := "resume the run to go on"
	if s.RunID == "" || s.forgets || s.window != "" { // there is nothing to resume
		then = "begin again" + s.raise()
	}
	if s.RunID == "" { // of a guard without a run
		return fmt.Sprintf("stopped: %s%s; %s", s.Code, doing, then)
	}
	return fmt.Sprintf("run %s stopped: %s%s, in the window that started at %s; %s",
		s.RunID, s.Code, doing, clocks.Text(s.StartedAt), then)
}

// raise says what else can be done where a limit was exceeded: a loop has none, and not every guard.
func (s *Stop) raise() string {
	switch {
	case s.Code == LoopDetected, s.Usage == nil && s.Budget == 0:
		return ""
	case s.Usage != nil:
		return ", or raise the limit if it needs more"
	}
	return ", or raise the limit if it needs longer"
}

// usage says how much was used of how much, as far as the stop has either.
func (s *Stop) usage() string {
	if s.Usage != nil {
		return ": " + s.Usage.String()
	}
	if s.Elapsed == 0 && s.Budget == 0 {
		return ""
	}
	return ": " + wording.Stop(record.Reason(string(s.Code)), s.Elapsed, s.Budget, s.Hold)
}

// Unwrap returns the Code, so that errors.Is(err, watchdog.WallClockExceeded) holds, and for a limit of time also
// errors.Is(err, context.DeadlineExceeded).
func (s *Stop) Unwrap() error { return s.Code }

// EventID is the ID of the cancel event that says so, as every watchdog derives it from the run and its window. It is
// empty for a guard without a run, which records nothing.
func (s *Stop) EventID() string {
	if s.RunID == "" {
		return ""
	}
	name := s.window
	if name == "" {
		name = event.Stamp(s.StartedAt).String()
	}
	return record.EventID(s.RunID, name, event.Cancel, record.Once)
}

// Timeout reports whether a limit of time ended the run, as [net.Error] and os.IsTimeout have it.
func (s *Stop) Timeout() bool { return s.Code.Timeout() }

// Temporary reports the same as Timeout, see [StopReason.Temporary].
func (s *Stop) Temporary() bool { return s.Timeout() }

func stopOf(p *record.Cancel, runID string) *Stop {
	return &Stop{
		Code: codeOf(p.Reason), RunID: runID, Parent: p.Parent,
		StartedAt: time.Time(p.SessionStartedAt), FiredAt: time.Time(p.FiredAt),
		Elapsed: fold.Elapsed(p), Budget: record.Duration(p.ConfiguredBudgetSeconds),
		Hold: p.Hold, Note: p.Note, Paused: record.Duration(p.PausedSeconds), window: p.Window,
		Rung: max(int(p.Rung), 1), Usage: usageOfRecord(runID, p.Spend),
	}
}

func (s *Stop) directive() Directive {
	return Directive{
		Kind: DirectiveCancel, RunID: s.RunID, Reason: s.Code, Rung: s.Rung, Used: s.Elapsed, Allowed: s.Budget,
		Hold: s.Hold, Note: s.Note, At: s.FiredAt, Usage: s.Usage,
	}
}
