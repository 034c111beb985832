package machine

import (
	"slices"
	"time"

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
	// meanwhile is what was traced since, for when the run goes on: a trace ends where the run's end was decided.
	meanwhile []Signal
}

// CancelEvent returns the event of the trip and what it says.
func (t *Trip) CancelEvent(n *Name) (Event, *record.Cancel) {
	v := &t.Verdict
	p := &record.Cancel{
		Reason: t.Reason, SessionStartedAt: record.Stamp(n.StartedAt), FiredAt: record.Stamp(t.At),
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
	return n.Event(record.EventCancel, t.At, record.Once, p), p
}

// CompleteEvent says that the run was complete at the trip's moment. It has the ID that a cancel of the window would
// have, so that a store keeps one end.
func (t *Trip) CompleteEvent(n *Name) Event {
	e := n.Event(record.EventComplete, t.At, record.Once, record.Complete{
		Reason: record.CompleteReason, SessionStartedAt: record.Stamp(n.StartedAt), CompletedAt: record.Stamp(t.At),
		ElapsedSeconds: record.WholeSeconds(t.Elapsed - t.Paused), PausedSeconds: record.ExactSeconds(t.Paused),
		Note: t.Note, Parent: n.Parent, Window: n.fresh, CommandEnd: t.Command, Spent: t.Spent,
	})
	e.ID = n.Once(n.StartedAt)[0]
	return e
}

// A Signal is one thing that the decision heeds.
type Signal struct {
	verdict.Signal
	Busy  bool          // it is what the host's Busy said
	Spend *record.Spend // the counted limit that it is about
	// Currency is that of a call's cost, as the host named it.
	Currency string
}

func signal(s verdict.Signal) Signal { return Signal{Signal: s} }

// A trace has what each run took, in that order: what the host did and said, what the store answered.
// What was decided is not in it, because a replay decides it again: it has a run take the signals, at the instants at
// which they were taken, and lets time pass between.

// traceCall traces what became of a call. A run around the one that refused it was not asked.
func (n *Node) traceCall(in *Input) {
	s := *in.Told
	for ; n != nil; n = n.outer {
		if s.At = n.now(); n.phase != Over {
			n.trace(s)
		}
		if n == in.Around {
			return
		}
	}
}

// notBusy is that the host did not say that it is busy, or said it too late.
func (q *Inquiry) notBusy(now time.Duration) Signal {
	return signal(verdict.Signal{Kind: verdict.SignalNotBusy, At: now, From: q.trip.Since, Rung: q.trip.Rung})
}

// traceTakenBack marks what took back the end of the run, among the effects, and says which limit it was.
func (t *Trip) traceTakenBack(n *Node, effects []Effect) {
	taken := []verdict.SignalKind{verdict.SignalExtend, verdict.SignalPause, verdict.SignalUnpause}
	for _, e := range effects {
		if e.Kind == Traced && e.Node == n && slices.Contains(taken, e.Signal.Kind) {
			if e.Signal.Refused = true; e.Signal.Spend == nil {
				e.Signal.Spend = t.limit()
			}
		}
	}
}

// limit is the limit whose trip it was, one of time in nanoseconds.
func (t *Trip) limit() *record.Spend {
	if t.Spend != nil {
		return t.Spend
	}
	return &record.Spend{
		Limit: string(t.Verdict.Limit), Used: record.Number(t.Verdict.Used), Allowed: record.Number(t.Verdict.Allowed),
	}
}

// TakenBack reports whether the signal tells that the run's end was taken back, because the store knew what it tells.
// It goes by what the limit allowed, because a timer may have been late.
func (t *Trip) TakenBack(s *Signal) bool {
	if !s.Refused || s.Spend == nil || s.Kind == verdict.SignalAdmit {
		return false
	}
	of, was := t.limit(), *s.Spend
	if s.More > 0 { // what an extension left of the limit that it extended
		was.Allowed -= record.Number(s.More)
	}
	return of.Limit == was.Limit && of.Tool == was.Tool && of.Allowed == was.Allowed
}

// told takes what a trace says that the run took. Whoever replays it looks afterwards, once an attach is whole.
func (n *Node) told(s *Signal) {
	if n.phase == Over {
		return
	}
	n.take(*s)
	id := verdict.HoldID{Key: s.Key, Serial: s.Serial}
	switch s.Kind {
	case verdict.SignalHold:
		n.signs().Holds.Find(id).Owner = &Hold{id: id}
	case verdict.SignalHeld:
		n.signs().Holds.Find(id).Owner = &Hold{id: id, pause: &verdict.Pause{}, restored: true}
	}
}
