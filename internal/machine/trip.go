package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Trip is a limit that was found exceeded, another guard's cancel, or that the work is done: the run's end is decided
// and not yet recorded.
type Trip struct {
	fold.Trip
	Verdict verdict.Verdict // without a limit if another guard decided
	Reason  string
	At      time.Time
	Note    string
	Spend   *record.Spend // of a counted limit
	Spent   []record.Spend
	// Complete says that the work is done, Command how that of a command ended.
	Complete bool
	Command  record.CommandEnd
}

// CancelEvent returns the event of the trip and what it says.
func (t *Trip) CancelEvent(n *Name) (event.Event, *record.Cancel) {
	v := &t.Verdict
	p := &record.Cancel{
		Reason: t.Reason, SessionStartedAt: event.Stamp(n.StartedAt), FiredAt: event.Stamp(t.At),
		Used:   record.UsedOf(v.Used, v.Allowed),
		Parent: n.Parent, Hold: v.Hold, Note: t.Note, PausedSeconds: record.ExactSeconds(t.Paused), Window: n.fresh,
		Spend: t.Spend, Spent: t.Spent,
	}
	if v.Limit != verdict.WallClock {
		p.MeasuredSeconds = record.ExactSeconds(v.Used)
	}
	if v.Rung > 1 {
		p.Rung = record.Count(v.Rung)
	}
	return n.Event(event.Cancel, t.At, record.Once, p), p
}

// CompleteEvent says that the run was complete at the trip's moment. It has the ID that a cancel of the window would
// have, so that a store keeps one end.
func (t *Trip) CompleteEvent(n *Name) event.Event {
	e := n.Event(event.Complete, t.At, record.Once, record.Complete{
		Reason: record.CompleteReason, SessionStartedAt: event.Stamp(n.StartedAt), CompletedAt: event.Stamp(t.At),
		ElapsedSeconds: record.WholeSeconds(t.Elapsed - t.Paused), PausedSeconds: record.ExactSeconds(t.Paused),
		Note: t.Note, Parent: n.Parent, Window: n.fresh, CommandEnd: t.Command, Spent: t.Spent,
	})
	e.ID = n.Once(n.StartedAt)[0]
	return e
}
