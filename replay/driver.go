package replay

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// maxDecisions is how many decisions a replay gives: one each second of a day is less.
const maxDecisions = 100_000

// A driver drives the machine of a run by its trace, which is the host, the store and Busy. The timer rings when the
// machine is due: it is never late.
//
// Rejected: a tree with the run's layers. What a layer does to the run around it is among that one's own signals, so
// that each run can be replayed by itself.
type driver struct {
	rules     machine.Rules
	currency  string
	busy      []*watchdog.Signal // what Busy says next, by the signals
	tree      machine.Tree
	node      *machine.Node // nil while the run is not attached
	now       time.Duration
	attached  int               // the last signal of the attach
	learning  bool              // more of what the store answered may come
	next      *watchdog.Signal  // of that
	failed    []watchdog.Signal // the calls of Complete that are still to come and to fail
	complete  *machine.Trip     // the one that is being recorded
	inquiry   *machine.Inquiry  // that waits for what Busy says next
	trip      *machine.Trip     // the end that the store was asked to record
	decisions []Decision
}

// attach begins the run's life in another process.
func (d *driver) attach(trace []watchdog.Signal, i int) {
	at := trace[i].At
	d.attached = attachEnd(trace, i)
	var of ledger.Ledger
	var a ledger.Account
	of.OpenSession(&a, verdict.NewSpend(d.rules.Limits.Counts, d.rules.ObserveOnly), d.currency)
	d.tree, d.node, d.inquiry, d.complete = machine.Tree{}, &machine.Node{Rules: d.rules}, nil, nil
	d.node.Heed()
	d.node.Count(&a)
	d.step(at, &machine.Input{Kind: machine.Begin, Elapsed: at, Window: &fold.Window{}})
}

// feed has the run take the i-th signal, after all that is due before it. It is looked at once an attach, and what the
// store answered at one moment, are whole.
func (d *driver) feed(i int, s watchdog.Signal) {
	d.next = d.busy[i]
	if i > d.attached && !(d.learning && answered(s) && s.At == d.now) {
		d.look()
		d.pass(s.At)
	}
	told := signalOf(s)
	if d.trip != nil && d.trip.TakenBack(&told) {
		d.decisions = d.decisions[:len(d.decisions)-1]
		d.recorded(s.At, &d.trip)
	}
	d.learning = answered(s)
	if s.Kind == watchdog.SignalEnd {
		d.node = nil
		return
	}
	d.take(&s, &told)
	if i >= d.attached && !d.learning {
		d.look()
	}
}

// take has the run take a signal: an answer of the host's or the store's if it was asked.
func (d *driver) take(s *watchdog.Signal, told *machine.Signal) {
	switch {
	case s.Kind == watchdog.SignalIncomplete:
		d.recorded(s.At, &d.complete)
	case says(s) && d.answers(d.inquiry):
		d.answer(s.At, s.Busy)
	default:
		d.step(s.At, &machine.Input{Kind: machine.Told, Told: told})
	}
}

// attachEnd returns the last signal of the attach that begins with the i-th: what was open and where the ladders stood,
// at the same moment, or up to where the attach was done.
func attachEnd(trace []watchdog.Signal, i int) (end int) {
	end = i
	for j := i + 1; j < len(trace); j++ {
		switch s := trace[j]; {
		case ofLayer(&s, trace[i].Run):
		case s.Kind == watchdog.SignalAttached:
			return j
		case !ofAttach(s):
			return end
		case s.At == trace[i].At:
			end = j
		}
	}
	return end
}

func ofAttach(s watchdog.Signal) bool {
	switch s.Kind {
	case watchdog.SignalRung, watchdog.SignalHeld, watchdog.SignalPause, watchdog.SignalUnpause, watchdog.SignalSpent:
		return true
	}
	return false
}

// answered reports whether the signal can be part of what the store answered.
func answered(s watchdog.Signal) bool {
	switch s.Kind {
	case watchdog.SignalPause, watchdog.SignalUnpause, watchdog.SignalRelease, watchdog.SignalExtend:
		return true
	}
	return false
}

// says reports whether the signal is what Busy said, or tells that there is one.
func says(s *watchdog.Signal) bool { return s.Busy || s.Kind == watchdog.SignalNotBusy }

// busyAnswers returns, for each signal, what Busy said there or next, or the last signal of the process if it said
// nothing any more, and whether there is a Busy.
func busyAnswers(trace []watchdog.Signal) (answers []*watchdog.Signal, ever bool) {
	answers = make([]*watchdog.Signal, len(trace))
	var next *watchdog.Signal
	for i := len(trace) - 1; i >= 0; i-- {
		s := &trace[i]
		if ofLayer(s, trace[0].Run) {
			continue
		}
		ever = ever || says(s)
		if next == nil || says(s) && s.Kind != watchdog.SignalAttach {
			next = s
		}
		if answers[i] = next; s.Kind == watchdog.SignalAttach {
			next = nil
		}
	}
	return answers, ever
}

// answers reports whether what Busy says next is about what it was asked now, or whether the process ended before it
// could answer. In life that is within a second. That it was busy later on is taken to have been so before.
func (d *driver) answers(q *machine.Inquiry) bool {
	if q == nil {
		return false
	}
	soon := d.next.At-machine.BusyTimeout <= d.now
	if !says(d.next) || d.next.Kind == watchdog.SignalAttach {
		return soon
	}
	return q.Trip() == verdict.IdleTrip{Since: d.next.From, Rung: d.next.Rung} && (d.next.Busy || soon)
}

// failedCompletes are the calls of Complete that were not recorded.
func failedCompletes(trace []watchdog.Signal) (all []watchdog.Signal) {
	for _, s := range trace {
		if s.Kind == watchdog.SignalIncomplete && !ofLayer(&s, trace[0].Run) {
			all = append(all, s)
		}
	}
	return all
}

// look has what is exceeded now decided.
func (d *driver) look() {
	if d.node != nil {
		d.step(d.now, &machine.Input{Kind: machine.Look})
	}
}

// pass lets time pass up to the instant, which is still to come.
func (d *driver) pass(end time.Duration) {
	for d.node != nil && len(d.failed) > 0 && d.failed[0].From <= end {
		at := d.failed[0].From
		d.failed = d.failed[1:]
		d.ring(at)
		in := machine.Input{Kind: machine.Complete}
		d.step(at, &in)
		d.complete = in.Trip
	}
	d.ring(end)
}

// ring has the timer ring up to the instant. It leaves off when there are too many decisions.
func (d *driver) ring(end time.Duration) {
	if d.node == nil {
		return
	}
	for due := d.tree.Due(); due <= end && due != verdict.Never && len(d.decisions) <= maxDecisions; due = d.tree.Due() {
		d.step(due, &machine.Input{Kind: machine.Tick})
	}
}

// recorded has the run go on whose end the store did not record.
func (d *driver) recorded(at time.Duration, trip **machine.Trip) {
	if *trip != nil && d.node.Phase() == machine.Recording {
		d.step(at, &machine.Input{Kind: machine.Recorded, Window: &fold.Window{}})
	}
	*trip = nil
}

func (d *driver) answer(at time.Duration, busy bool) {
	d.step(at, &machine.Input{Kind: machine.Answer, Inquiry: d.inquiry, Progress: busy})
	d.step(at, &machine.Input{Kind: machine.Returned})
}

// step takes an input and notes what is decided.
func (d *driver) step(at time.Duration, in *machine.Input) {
	d.now = max(d.now, at)
	in.Node = d.node
	asks := false
	for _, e := range d.tree.Step(machine.Now{At: d.now}, in) {
		switch e.Kind {
		case machine.Record:
			if o := e.Entry.Notice; o != nil {
				d.decisions = append(d.decisions, decision(&o.Verdict, o.Spend, d.now))
			}
		case machine.Exchange:
			d.trip = e.Trip
			d.decisions = append(d.decisions, decision(&e.Trip.Verdict, e.Trip.Spend, d.now))
		case machine.Ask:
			d.inquiry, asks = e.Inquiry, true
		case machine.Answered:
			d.inquiry = nil
		}
	}
	if asks && d.inquiry != nil && !d.answers(d.inquiry) { // nobody asked this in life
		d.answer(d.now, false)
		d.look()
	}
}
