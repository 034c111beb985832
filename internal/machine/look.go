package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// look judges the run at this moment, and notes when that has to be done again.
func (n *Node) look() {
	n.endWithOuter()
	switch {
	case n.phase != Running:
		return
	case n.Disabled:
		n.beQuiet(verdict.Never)
		return
	}
	if n.Account != nil {
		n.Account.Learn()
		n.traceAround()
	}
	n.takePulse() // once: a sign that comes meanwhile is later than this instant
	for {
		now := n.now()
		n.resetLadders()
		v := verdict.Judge(*n.Limits, n.seen, now)
		switch {
		case v.Action == verdict.Continue:
			n.beQuiet(v.Next)
			n.arm(v.Next)
			return
		case n.mustAsk(v):
			if n.inquire(v) {
				n.waitWhileAsking()
				return
			}
			continue
		case v.Action == verdict.Warn:
			n.warn(v)
		case v.Action == verdict.Cancel && !n.ObserveOnly:
			n.decide(v, record.LimitReason(string(v.Limit)))
			return
		default:
			n.ask(v, record.LimitReason(string(v.Limit)))
		}
		n.seen.Apply(v, now)
		n.awaitSign(v)
	}
}

// A Notice is a warning or a directive, as it was decided.
type Notice struct {
	Verdict   verdict.Verdict
	Reason    string        // of a directive
	Remaining time.Duration // of a warning about the wall clock
	Note      string
	At        time.Time
	Spend     *record.Spend // of a counted limit

	ids      [2]string // of the events of a directive
	replaces []string  // the directives that it takes the place of
}

// Directive reports whether it asks the host for something, rather than warning it.
func (o *Notice) Directive() bool { return o.Verdict.Action != verdict.Warn }

// Observed tells a cancel that is recorded and not carried out.
func (o *Notice) Observed() bool { return o.Verdict.Action == verdict.Cancel }

func (n *Node) notice(v verdict.Verdict) *Notice {
	return &Notice{Verdict: v, Note: n.LastNote(), At: record.Truncate(n.tree.now.Wall), Spend: n.spendOf(v.Count)}
}

// warn decides on a warning.
func (n *Node) warn(v verdict.Verdict) {
	o := n.notice(v)
	if o.Spend == nil {
		o.Remaining = verdict.Remaining(*n.Limits, n.seen, n.now())
	}
	n.record(&Entry{Notice: o, make: func() []Event { return []Event{n.warningEvent(o)} }})
}

// ask decides on a directive, and on the work that it ends.
func (n *Node) ask(v verdict.Verdict, reason string) {
	o := n.notice(v)
	one, other := record.EventID("", "", "", ""), record.EventID("", "", "", "")
	o.Reason, o.ids = reason, [2]string{min(one, other), max(one, other)} // events of one moment are read in this order
	o.replaces = n.noteGiven(o)
	e := n.record(&Entry{Notice: o, make: func() []Event { return n.directiveEvents(o) }})
	again := v.Directive == verdict.DirectRetry || v.Directive == verdict.DirectUnstick
	if again && !n.ObserveOnly {
		n.tree.emit(Effect{Kind: Again, Node: n, Entry: e})
	}
}

// record has an entry recorded.
func (n *Node) record(e *Entry) *Entry {
	n.Draw()
	n.Pending.Put(e)
	kind := Record
	if n.tree.ending {
		kind = Leave
	}
	n.tree.emit(Effect{Kind: kind, Node: n, Entry: e})
	return e
}
