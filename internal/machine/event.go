package machine

import (
	"fmt"
	"strconv"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// Event returns the event of one kind about the run. Events of the same name, window and run have the same ID,
// whichever process makes them; an empty name makes an event of its own.
func (n *Name) Event(kind string, at time.Time, name string, payload any) Event {
	return Event{
		ID: n.EventID(kind, name), AggregateType: record.AggregateType, AggregateID: n.Run,
		Type: kind, Payload: record.JSON(payload), Timestamp: record.Truncate(at),
	}
}

// Cancel returns the event of the trip and what it says.
func (n *Name) Cancel(t *Trip) (Event, *record.Cancel) {
	v := &t.Verdict
	p := &record.Cancel{
		Reason: t.Reason, SessionStartedAt: record.Stamp(n.StartedAt), FiredAt: record.Stamp(t.At),
		Used:   record.UsedOf(v.Used, v.Allowed),
		Parent: n.Parent, Hold: v.Hold, Note: t.Note, PausedSeconds: record.ExactSeconds(t.Paused), Window: n.fresh,
		Spend: t.Spend,
	}
	if v.Limit != verdict.WallClock {
		p.MeasuredSeconds = record.ExactSeconds(v.Used)
	}
	if v.Rung > 1 {
		p.Rung = record.Count(v.Rung)
	}
	return n.Event(record.EventCancel, t.At, record.Once, p), p
}

// Complete says that the run was complete at the trip's moment. It has the ID that a cancel of the window would have,
// so that a store keeps one end.
func (n *Name) Complete(t *Trip) Event {
	e := n.Event(record.EventComplete, t.At, record.Once, record.Complete{
		Reason: record.CompleteReason, SessionStartedAt: record.Stamp(n.StartedAt), CompletedAt: record.Stamp(t.At),
		ElapsedSeconds: record.WholeSeconds(t.Elapsed - t.Paused), PausedSeconds: record.ExactSeconds(t.Paused),
		Note: t.Note, Parent: n.Parent, Window: n.fresh, CommandEnd: t.Command,
	})
	e.ID = n.EventID(record.EventCancel, record.Once)
	return e
}

// directiveEvents are the decision and the directive of one trip.
func (n *Name) directiveEvents(o *Notice) []Event {
	v := &o.Verdict
	if v.Directive == verdict.DirectWrapUp {
		return []Event{n.wrapUpEvent(o)}
	}
	p := record.Trip{
		Reason: o.Reason, SessionStartedAt: record.Stamp(n.StartedAt), FiredAt: record.Stamp(o.At),
		Used:      record.UsedOf(v.Used, v.Allowed),
		Directive: string(v.Directive), Rung: record.Count(v.Rung), Hold: v.Hold, Note: o.Note, ObserveOnly: o.Observed(),
		Parent: n.Parent, MeasuredSeconds: record.ExactSeconds(v.Used), Window: n.fresh, Resets: o.replaces, Spend: o.Spend,
	}
	decision := n.Event(record.EventWarning, o.At, "", p)
	if decision.ID = o.ids[0]; o.Observed() {
		return []Event{decision}
	}
	directive := n.Event(record.EventPrefix+string(v.Directive), o.At, "", p)
	directive.ID = o.ids[1]
	return []Event{decision, directive}
}

// wrapUpEvent is the same for all processes that watch the run.
func (n *Name) wrapUpEvent(o *Notice) Event {
	v := &o.Verdict
	limit, allowed := limitName(o.Spend, v.Allowed)
	return n.Event(record.EventWrapUp, o.At, limit+" of "+allowed, record.WrapUp{
		Reason: limitReason(o.Spend), SessionStartedAt: record.Stamp(n.StartedAt), AskedAt: record.Stamp(o.At),
		Used:             record.UsedOf(v.Used, v.Allowed),
		RemainingSeconds: record.WholeSeconds(max(v.Allowed-v.Used, 0)), Note: o.Note, Parent: n.Parent, Window: n.fresh,
		Spend: o.Spend,
	})
}

// limitReason is the limit of a warning or a wrap-up as its event has it.
func limitReason(s *record.Spend) string {
	if s == nil {
		return string(verdict.WallClock)
	}
	return s.Limit
}

// limitName names a limit and what it allows for the ID of an event: another one after an extension.
func limitName(s *record.Spend, budget time.Duration) (limit, allowed string) {
	if s == nil {
		return string(verdict.WallClock), budget.String()
	}
	return s.Limit + " " + s.Tool + " " + s.Scope, strconv.FormatInt(int64(s.Allowed), 10)
}

func (n *Name) warningEvent(o *Notice) Event {
	v := &o.Verdict
	used, allowed := v.Used, v.Allowed
	name := fmt.Sprintf("%v of %v", v.Fraction, allowed)
	if o.Spend != nil {
		limit, of := limitName(o.Spend, 0)
		name = fmt.Sprintf("%v of %s %s", v.Fraction, limit, of)
	}
	return n.Event(record.EventWarning, o.At, name, record.Warning{
		Reason: limitReason(o.Spend), SessionStartedAt: record.Stamp(n.StartedAt), WarnedAt: record.Stamp(o.At),
		Used:     record.UsedOf(used, allowed),
		Fraction: record.Seconds(v.Fraction), RemainingSeconds: record.WholeSeconds(o.Remaining),
		Parent: n.Parent, Window: n.fresh, Spend: o.Spend,
	})
}

func (n *Name) progressEvent(at time.Time, put []string) Event {
	stamp := record.Stamp(at)
	return n.Event(record.EventProgress, at, "", record.Progress{
		SessionStartedAt: record.Stamp(n.StartedAt), ProgressedAt: stamp, Resets: put, Parent: n.Parent, Window: n.fresh,
	})
}

func (n *Name) holdEvent(at time.Time, key, layer string, p *verdict.Pause) Event {
	e := n.Event(record.EventHold, at, "", record.Hold{
		Hold: key, SessionStartedAt: record.Stamp(n.StartedAt), OpenedAt: record.Stamp(at),
		OpenedSeconds: record.ExactSeconds(p.Opened), CapSeconds: record.FloatSeconds(p.Cap), Layer: layer,
		Parent: n.Parent, Window: n.fresh,
	})
	e.ID = p.ID
	return e
}

func (n *Name) releaseEvent(
	at time.Time, elapsed time.Duration, key string, pause *verdict.Pause, put []string,
) Event {
	payload := record.Release{
		Hold: key, SessionStartedAt: record.Stamp(n.StartedAt), ReleasedAt: record.Stamp(at),
		ReleasedSeconds: record.ExactSeconds(elapsed), Resets: put, Parent: n.Parent, Window: n.fresh,
	}
	name := "" // an event of its own
	if pause != nil {
		payload.Opening, name = pause.ID, pause.ID
	}
	return n.Event(record.EventRelease, at, name, payload)
}

// Resume opens the window after the one that the run is in. Its name is that window's, so that it has one successor
// whoever resumes.
func (n *Name) Resume(at, fresh time.Time) Event {
	return n.Event(record.EventResume, at, record.Once, record.Resume{
		SessionStartedAt: record.Stamp(fresh), PreviousStartedAt: record.Stamp(n.StartedAt), Parent: n.Parent,
	})
}

// Extend gives the window d more, or counted limits what they say.
func (n *Node) Extend(now Now, d time.Duration, spend []record.Spend) Event {
	n.Draw()
	budget := n.Budget()
	if d == 0 && budget == verdict.Never {
		budget = 0
	}
	return n.Event(record.EventExtend, now.Wall, "", record.Extend{
		SessionStartedAt: record.Stamp(n.StartedAt), ExtendedAt: record.Stamp(now.Wall),
		ElapsedSeconds: record.WholeSeconds(n.Worked(n.At(now.At))), ExtensionSeconds: record.FloatSeconds(d),
		ConfiguredBudgetSeconds: record.FloatSeconds(budget + d), Parent: n.Parent, Window: n.fresh, Spend: spend,
	})
}

// Interrupt says that the signal ended the run now. An empty name makes an event of its own.
func (n *Node) Interrupt(now Now, signal, name string) Event {
	n.Draw()
	return n.Event(record.EventInterrupt, now.Wall, name, record.Interrupt{
		Signal: signal, SessionStartedAt: record.Stamp(n.StartedAt), InterruptedAt: record.Stamp(now.Wall),
		ElapsedSeconds: record.WholeSeconds(n.Worked(n.At(now.At))), Parent: n.Parent, Window: n.fresh,
	})
}

// recordParentEnd records that the parent ended the run, by its error and not by its cause, whose text is the host's.
func (n *Node) recordParentEnd(parent *ParentEnd) {
	name := "parent_canceled"
	if parent.Deadline {
		name = "parent_deadline_exceeded"
	}
	e := NewEntry(&Loss{"an interrupt", []any{"signal", name}}, n.Interrupt(n.tree.now, name, ""))
	n.record(e)
}

// Overrun says what became of a call in the run, and nothing of what its work returned. The note is bounded already.
func (n *Node) Overrun(now Now, call record.Overrun) Event {
	n.Draw()
	call.Key = record.Note(call.Key)
	call.SessionStartedAt, call.OverranAt = record.Stamp(n.StartedAt), record.Stamp(now.Wall)
	call.Parent, call.Window = n.Parent, n.fresh
	return n.Event(record.EventOverrun, now.Wall, "", call)
}

// Correction says that what the cancel ended had finished by itself. There is one for each cancel.
func (n *Node) Correction(now Now, cancel string) Event {
	n.Draw()
	return n.Event(record.EventCorrection, now.Wall, cancel, record.Correction{
		Cancel: cancel, SessionStartedAt: record.Stamp(n.StartedAt), CorrectedAt: record.Stamp(now.Wall),
		Parent: n.Parent, Window: n.fresh,
	})
}
