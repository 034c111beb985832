package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// BusyTimeout is how long the host may take to say whether it is busy.
const BusyTimeout = time.Second

// busyness is what is known of the host's Busy.
type busyness struct {
	asking  *Inquiry         // that waits for an answer
	calling bool             // a call has not returned
	denied  verdict.IdleTrip // the last trip of which the host said that it is not busy
}

// An Inquiry asks the host whether it is busy, before a trip of Idle.
type Inquiry struct {
	trip verdict.IdleTrip
	over bool // it was answered, or the run ended
}

// Trip is the trip that the host is asked about.
func (q *Inquiry) Trip() verdict.IdleTrip { return q.trip }

// Over reports whether nobody waits for an answer any more.
func (q *Inquiry) Over() bool { return q.over }

// mustAsk reports whether the host has to be asked before the verdict is carried out. A call that was left behind, and
// may never return, is not made again: it says false.
func (n *Node) mustAsk(v verdict.Verdict) bool {
	trip, ok := v.IdleTrip()
	if !ok || !n.AsksBusy {
		return false
	}
	b := &n.extras().busy
	return b.denied != trip && (b.asking != nil || !b.calling)
}

// inquire puts off the trip until the host was asked, and reports whether that has to be done. While the host is being
// asked about a silence before, this one comes next.
func (n *Node) inquire(v verdict.Verdict) bool {
	b := &n.more.busy
	n.seen.Asking = true
	n.seen.Asked, _ = v.IdleTrip()
	if b.asking != nil {
		return false
	}
	b.asking, b.calling, n.tree.asked = &Inquiry{trip: n.seen.Asked}, true, true
	n.tree.emit(Effect{Kind: Ask, Node: n, Inquiry: b.asking})
	return true
}

// waitWhileAsking notes when to look again beside an inquiry that has just begun. What else is due already was exceeded
// later than the limit of silence, and so waits for the answer.
func (n *Node) waitWhileAsking() {
	now := n.now()
	v := verdict.Judge(*n.Limits, n.seen, now)
	if v.Action != verdict.Continue {
		n.LookClosely()
		n.arm(now + BusyTimeout)
		return
	}
	n.beQuiet(v.Next)
	n.arm(v.Next)
}

// dropInquiry has nobody wait for an answer, because the run's end is decided.
func (n *Node) dropInquiry() {
	if n.more != nil && n.more.busy.asking != nil {
		n.endInquiry()
	}
}

// endInquiry ends the inquiry that waits for an answer.
func (n *Node) endInquiry() {
	q := n.more.busy.asking
	n.more.busy.asking, n.seen.Asking = nil, false
	q.over = true
	n.tree.emit(Effect{Kind: Answered, Node: n, Inquiry: q})
}

// asked has nobody ask the host if the run's end was decided before.
func (n *Node) asked(in *Input) {
	if in.Done = in.Inquiry.over; in.Done {
		n.more.busy.calling = false
	}
}

// answer takes what the host said, or that it did not say it in time. It counts if the silence goes on about which the
// host was asked.
func (n *Node) answer(in *Input) {
	q := in.Inquiry
	if q.over {
		return
	}
	in.Done = true
	n.endInquiry()
	n.takePulse()
	goesOn := n.phase == Running && verdict.NextIdleTrip(*n.Limits, n.seen) == q.trip
	n.LookClosely()
	if n.phase == Running && (!goesOn || !in.Progress) {
		n.trace(q.notBusy(n.now()))
	}
	switch {
	case !goesOn:
	case !in.Progress:
		n.more.busy.denied = q.trip
	default:
		n.take(Signal{
			Signal: verdict.Signal{Kind: verdict.SignalActivity, From: q.trip.Since, Rung: q.trip.Rung}, Busy: true,
		})
		for around := n.outer; around != nil; around = around.outer {
			around.sign(&Input{})
		}
	}
}

// sign is a sign of life of this run alone. It sets the timer if that waits for it.
func (n *Node) sign(in *Input) {
	pulse := n.Pulse.Load()
	if pulse == nil || n.phase == Over { // one that is being recorded may be taken back
		return
	}
	first, kind := !n.signs().Signalled, verdict.SignalActivity
	if in.Progress {
		kind = verdict.SignalProgress
	}
	n.take(signal(verdict.Signal{Kind: kind}))
	if pulse.awaited.came(in.Progress) || first && n.Limits.FromFirstSign {
		n.lookSoon()
	}
}
