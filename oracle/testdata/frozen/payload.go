package watchdog

import (
	"fmt"
	"strconv"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// newEvent returns the event of one kind about the run. Events of the same name, window and run have the same ID,
// whichever process makes them; an empty name makes an event of its own.
func (w *Watchdog) newEvent(kind string, at time.Time, name string, payload any) Event {
	return Event{
		ID: record.EventID(w.id, w.windowName(w.startedAt), kind, name), AggregateType: AggregateType, AggregateID: w.id,
		Type: kind, Payload: record.JSON(payload), Timestamp: record.Truncate(at),
	}
}

// cancelEvent returns the event of the trip and what it says.
func (w *Watchdog) cancelEvent(t *trip) (Event, *record.Cancel) {
	p := &record.Cancel{
		Reason: t.reason, SessionStartedAt: record.Stamp(w.startedAt), FiredAt: record.Stamp(t.at),
		ElapsedSeconds: record.WholeSeconds(t.verdict.Used), ConfiguredBudgetSeconds: record.FloatSeconds(t.verdict.Allowed),
		Parent: w.lineage.parent(), Hold: t.verdict.Hold, Note: t.note,
		PausedSeconds: record.ExactSeconds(t.paused), Window: w.lineage.fresh(), Spend: t.usage.recorded(),
	}
	if t.verdict.Limit != verdict.WallClock {
		p.MeasuredSeconds = record.ExactSeconds(t.verdict.Used)
	}
	if t.verdict.Rung > 1 {
		p.Rung = record.Count(t.verdict.Rung)
	}
	return w.newEvent(EventCancel, t.at, record.Once, p), p
}

// completeEvent says that the run was complete at the trip's moment. It has the ID that a cancel of the window would
// have, so that a store keeps one end.
func (w *Watchdog) completeEvent(t *trip) Event {
	e := w.newEvent(EventComplete, t.at, record.Once, record.Complete{
		Reason: record.CompleteReason, SessionStartedAt: record.Stamp(w.startedAt), CompletedAt: record.Stamp(t.at),
		ElapsedSeconds: record.WholeSeconds(t.elapsed - t.paused), PausedSeconds: record.ExactSeconds(t.paused),
		Note: t.note, Parent: w.lineage.parent(), Window: w.lineage.fresh(), CommandEnd: t.command,
	})
	e.ID = record.EventID(w.id, w.windowName(w.startedAt), EventCancel, record.Once)
	return e
}

// directiveEvents are the decision and the directive of one trip.
func (w *Watchdog) directiveEvents(d Directive, ids directiveIDs) []Event {
	if d.Kind == DirectiveWrapUp {
		return []Event{w.wrapUpEvent(d)}
	}
	p := record.Trip{
		Reason: reasonOfCode(d.Reason), SessionStartedAt: record.Stamp(w.startedAt), FiredAt: record.Stamp(d.At),
		ElapsedSeconds: record.WholeSeconds(d.Used), ConfiguredBudgetSeconds: record.FloatSeconds(d.Allowed),
		Directive: string(d.Kind), Rung: record.Count(d.Rung), Hold: d.Hold, Note: d.Note, ObserveOnly: d.ObserveOnly,
		Parent:          w.lineage.parent(),
		MeasuredSeconds: record.ExactSeconds(d.Used), Window: w.lineage.fresh(), Resets: ids.replaces,
		Spend: d.Usage.recorded(),
	}
	decision := w.newEvent(EventWarning, d.At, "", p)
	if decision.ID = ids.decision; d.ObserveOnly {
		return []Event{decision}
	}
	directive := w.newEvent(eventPrefix+string(d.Kind), d.At, "", p)
	directive.ID = ids.directive
	return []Event{decision, directive}
}

// directiveIDs are those of the two events of one trip, and of the directives that it takes the place of. Events of one
// moment are read in the order of their IDs.
type directiveIDs struct {
	decision, directive string
	replaces            []string
}

func newDirectiveIDs() directiveIDs {
	one, other := record.EventID("", "", "", ""), record.EventID("", "", "", "")
	return directiveIDs{decision: min(one, other), directive: max(one, other)}
}

// wrapUpEvent is the same for all processes that watch the run.
func (w *Watchdog) wrapUpEvent(d Directive) Event {
	limit, allowed := limitName(d.Usage, d.Allowed)
	return w.newEvent(EventWrapUp, d.At, limit+" of "+allowed, record.WrapUp{
		Reason: limitReason(d.Usage), SessionStartedAt: record.Stamp(w.startedAt), AskedAt: record.Stamp(d.At),
		ElapsedSeconds: record.WholeSeconds(d.Used), ConfiguredBudgetSeconds: record.FloatSeconds(d.Allowed),
		RemainingSeconds: record.WholeSeconds(max(d.Allowed-d.Used, 0)), Note: d.Note, Parent: w.lineage.parent(),
		Window: w.lineage.fresh(), Spend: d.Usage.recorded(),
	})
}

// limitReason is the limit of a warning or a wrap-up as its event has it.
func limitReason(u *Usage) string {
	if u == nil {
		return string(verdict.WallClock)
	}
	return u.Limit
}

// limitName names a limit and what it allows for the ID of an event: another one after an extension.
func limitName(u *Usage, budget time.Duration) (limit, allowed string) {
	if u == nil {
		return string(verdict.WallClock), budget.String()
	}
	return u.Limit + " " + u.Tool + " " + u.Scope, strconv.FormatInt(u.Allowed, 10)
}

func (w *Watchdog) warningEvent(warning Warning) Event {
	name := fmt.Sprintf("%v of %v", warning.Fraction, warning.Budget)
	if warning.Usage != nil {
		limit, allowed := limitName(warning.Usage, 0)
		name = fmt.Sprintf("%v of %s %s", warning.Fraction, limit, allowed)
	}
	return w.newEvent(EventWarning, warning.At, name, record.Warning{
		Reason: limitReason(warning.Usage), SessionStartedAt: record.Stamp(w.startedAt), WarnedAt: record.Stamp(warning.At),
		ElapsedSeconds: record.WholeSeconds(warning.Elapsed), ConfiguredBudgetSeconds: record.FloatSeconds(warning.Budget),
		Fraction: record.Seconds(warning.Fraction), RemainingSeconds: record.WholeSeconds(warning.Remaining),
		Parent: w.lineage.parent(), Window: w.lineage.fresh(), Spend: warning.Usage.recorded(),
	})
}

// resumeEvent opens the window after the one that w is in. Its name is that window's, so that it has one successor
// whoever resumes.
func (w *Watchdog) resumeEvent(at, fresh time.Time) Event {
	return w.newEvent(EventResume, at, record.Once, record.Resume{
		SessionStartedAt: record.Stamp(fresh), PreviousStartedAt: record.Stamp(w.startedAt), Parent: w.lineage.parent(),
	})
}

// extendEvent gives the window d more, of a budget that has the length so far. The caller holds mu.
func (w *Watchdog) extendEvent(d, budget time.Duration) Event {
	at := w.clock.now()
	return w.newEvent(EventExtend, at, "", record.Extend{
		SessionStartedAt: record.Stamp(w.startedAt), ExtendedAt: record.Stamp(at),
		ElapsedSeconds: record.WholeSeconds(w.worked()), ExtensionSeconds: record.FloatSeconds(d),
		ConfiguredBudgetSeconds: record.FloatSeconds(budget + d), Parent: w.lineage.parent(), Window: w.lineage.fresh(),
	})
}

// interruptEvent says that the signal ended the run now. An empty name makes an event of its own.
func (w *Watchdog) interruptEvent(signal, name string) Event {
	w.mu.Lock()
	at, elapsed := w.clock.now(), w.worked()
	w.mu.Unlock()
	return w.newEvent(EventInterrupt, at, name, record.Interrupt{
		Signal: signal, SessionStartedAt: record.Stamp(w.startedAt), InterruptedAt: record.Stamp(at),
		ElapsedSeconds: record.WholeSeconds(elapsed), Parent: w.lineage.parent(), Window: w.lineage.fresh(),
	})
}

// overrunEvent says what became of a call in the run, and nothing of what its work returned. The note is bounded
// already.
func (w *Watchdog) overrunEvent(call record.Overrun) Event {
	w.mu.Lock()
	at := w.clock.now()
	w.mu.Unlock()
	call.Key = record.Note(call.Key)
	call.SessionStartedAt, call.OverranAt = record.Stamp(w.startedAt), record.Stamp(at)
	call.Parent, call.Window = w.lineage.parent(), w.lineage.fresh()
	return w.newEvent(EventOverrun, at, "", call)
}

// lostAttempt is the signal of the interrupt of an attempt whose process ended without recording anything.
const lostAttempt = "attempt_lost"

// lostEvent is the one event about the attempt before this one.
func (w *Watchdog) lostEvent(attempt Attempt) Event {
	return w.interruptEvent(lostAttempt, "attempt "+strconv.Itoa(attempt.Number-1))
}

// stopOf reads the payload of the run's cancel event.
func stopOf(p *record.Cancel, runID string) *Stop {
	return &Stop{
		Code: codeOf(p.Reason), RunID: runID, Parent: p.Parent,
		StartedAt: time.Time(p.SessionStartedAt), FiredAt: time.Time(p.FiredAt),
		Elapsed: fold.Elapsed(p), Budget: record.Duration(p.ConfiguredBudgetSeconds),
		Hold: p.Hold, Note: p.Note, Paused: record.Duration(p.PausedSeconds), window: p.Window,
		Rung: max(int(p.Rung), 1), Usage: usageOfRecord(runID, p.Spend),
	}
}
