package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// BusyTimeout is how long the host may take to say whether it is busy.
const BusyTimeout = time.Second

// An Inquiry asks the host whether it is busy, before a trip of Idle.
type Inquiry struct {
	trip verdict.IdleTrip
	over bool // it was answered, or the run ended
}

// Trip is the trip that the host is asked about.
func (q *Inquiry) Trip() verdict.IdleTrip { return q.trip }

// Over reports whether nobody waits for an answer any more.
func (q *Inquiry) Over() bool { return q.over }

// busyness is what is known of the host's Busy.
type busyness struct {
	asking  *Inquiry         // that waits for an answer
	calling bool             // a call has not returned
	denied  verdict.IdleTrip // the last trip of which the host said that it is not busy
}

// asks reports whether the host is asked before the trip. A call that was left behind, and may never return, is not
// made again: it says false.
func (b *busyness) asks(trip verdict.IdleTrip) bool {
	return b.denied != trip && (b.asking != nil || !b.calling)
}

// ask returns the inquiry before the trip that has to be made now, nil if one is under way: then this one comes next.
func (b *busyness) ask(trip verdict.IdleTrip) *Inquiry {
	if b.asking != nil {
		return nil
	}
	b.asking, b.calling = &Inquiry{trip: trip}, true
	return b.asking
}

// end ends the inquiry that waits for an answer, and returns it, nil for none.
func (b *busyness) end() (q *Inquiry) {
	if q, b.asking = b.asking, nil; q != nil {
		q.over = true
	}
	return q
}

// inquire puts off a trip of Idle until the host was asked, if it has to be. It reports whether the trip is put off,
// and whether the host is to be asked now.
func (n *Node) inquire(v *verdict.Verdict) (putOff, now bool) {
	trip, idle := v.IdleTrip()
	if !idle || !n.AsksBusy || !n.extras().busy.asks(trip) {
		return false, false
	}
	n.seen.Asking, n.seen.Asked = true, trip
	q := n.more.busy.ask(trip)
	if q == nil {
		return true, false
	}
	n.tree.Room.asked = true
	n.tree.emit(Effect{Kind: Ask, Node: n, Inquiry: q})
	return true, true
}

// endInquiry has nobody wait for an answer any more: it came, or the run's end is decided.
func (n *Node) endInquiry() {
	if n.more == nil {
		return
	}
	if q := n.more.busy.end(); q != nil {
		n.seen.Asking = false
		n.tree.emit(Effect{Kind: Answered, Node: n, Inquiry: q})
	}
}

// answer takes what the host said, or that it did not say it in time. It counts if the silence goes on about which the
// host was asked.
func (n *Node) answer(in *Input) {
	q := in.Inquiry
	if in.Done = !q.over; q.over {
		return
	}
	n.endInquiry()
	n.takePulse(&n.tree.Room.now)
	n.LookClosely()
	goesOn := verdict.NextIdleTrip(*n.Limits, n.seen) == q.trip
	switch {
	case !goesOn:
	case !in.Progress:
		n.more.busy.denied = q.trip
	default:
		n.take(verdict.Signal{Kind: verdict.SignalActivity})
		for around := n.outer; around != nil; around = around.outer {
			around.sign(false)
		}
	}
}

// sign is a sign of life of this run alone. It sets the timer if that waits for it.
func (n *Node) sign(progress bool) {
	pulse := n.Pulse.Load()
	if pulse == nil || n.phase == Over { // one that is being recorded may be taken back
		return
	}
	first, kind := !n.signs().Signalled, verdict.SignalActivity
	if progress {
		kind = verdict.SignalProgress
	}
	n.take(verdict.Signal{Kind: kind})
	if pulse.awaited.came(progress) || first && n.Limits.FromFirstSign {
		n.rest(n.now())
	}
}
