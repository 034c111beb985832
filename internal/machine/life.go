package machine

import (
	"errors"
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Phase is where a run stands. Nothing outside of this file changes it.
//
//	         New, Resume
//	              │
//	              ▼    another process extended the window, or Complete was not recorded
//	┌────────  running  ◀──────────────────────────────┐
//	│             │                                    │
//	│ Close       │ a limit was exceeded, Cancel,      │
//	│ Interrupt   ▼ or Complete                        │
//	│ parent   recording  ─────────────────────────────┘
//	│ Sync        │
//	│             │ the store has the event, or did not take a stop in time
//	▼             ▼
//	     ended  ◀──── New, of a window that has its stop already
//
// The first cause wins: each arrow is taken in one step, once, and whoever looks afterwards sees the same stop or the
// same cause. Who wants to end a run whose end is being recorded waits for that.
//
// Rejected: to end the context first and record afterwards. A crash in between would lose the reason.
type Phase uint8

// The phases.
const (
	Running   Phase = iota
	Recording       // a limit was exceeded or the work is done, the event of that is being written
	Over            // fired, complete, closed, interrupted, or ended by its parent
)

// ErrComplete is the cause of a run that is complete, until the driver names its own.
var ErrComplete = errors.New("run is complete")

// A Trip is a limit that was found exceeded, another guard's cancel, or that the work is done: the run's end is decided
// and not yet recorded.
type Trip struct {
	fold.Trip
	Verdict verdict.Verdict // without a limit if another guard decided
	Reason  string
	At      time.Time
	Note    string
	Spend   *record.Spend // of a counted limit
	// Complete says that the work is done, Command how that of a command ended.
	Complete bool
	Command  record.CommandEnd
	// meanwhile is what was traced since, for when the run goes on: a trace ends where the run's end was decided.
	meanwhile []Signal
}

// takeUp puts a run where its window stands.
func (n *Node) takeUp(found *fold.Window) {
	n.StartedAt = found.StartedAt
	n.seen.Attached = n.now()
	n.seen.Extended = found.Extended
	budget := n.Budget()
	n.seen.Warned = found.WarnedOf(fold.Key{}, n.Limits.WarnAt, budget.Seconds())
	n.seen.Wrapped = found.WrappedUp(fold.Key{}, budget.Seconds())
	n.restoreSpend(found)
	n.trace(signal(verdict.Signal{
		Kind: verdict.SignalAttach, At: n.seen.Attached, Length: n.seen.Extended, Warned: n.seen.Warned,
		Wrapped: n.seen.Wrapped,
	}))
	if found.Stop != nil {
		n.phase = Over
		n.tree.emit(Effect{Kind: Ended, Node: n, Stop: found.Stop})
		return
	}
	n.restoreLadders(found)
	n.restoreHolds(found)
}

// attached has the silence count from now on: what the store took to answer is none.
func (n *Node) attached() {
	if at := n.now(); n.phase == Running && at > n.seen.Attached {
		s := verdict.Signal{Kind: verdict.SignalAttached, At: at}
		n.seen.Take(n.Limits, s)
		n.trace(signal(s))
	}
}

// decide makes the verdict the run's end: from here on nothing else can end it.
func (n *Node) decide(v verdict.Verdict, reason string) {
	spend := n.spendOf(v.Count)
	if n.more != nil && n.more.busy.asking != nil && v.Limit != "" { // it may be taken back, and the host asked again
		n.trace(n.more.busy.asking.notBusy(n.now()))
	}
	t := n.beginTrip()
	t.Verdict, t.Reason, t.Spend = v, reason, spend
	t.On, t.LeftOpen, t.Given = fold.KeyOf(v.Limit, v.Hold, spend), n.leftOpen(v), n.given(spend)
	if v.Limit == verdict.WallClock { // what takes it back, and costs as much as there are pauses
		t.Pauses = n.seen.KnownPauses()
	}
	n.tree.emit(Effect{Kind: Exchange, Node: n, Trip: t})
}

// beginTrip decides that the run ends.
func (n *Node) beginTrip() *Trip {
	n.Draw()
	n.phase = Recording
	n.dropInquiry()
	n.LookClosely()
	now := n.now()
	n.trip = &Trip{
		Trip: fold.Trip{
			Extended: n.seen.Extended, Elapsed: now, Paused: verdict.Paused(n.seen, now),
		},
		At: record.Truncate(n.tree.now.Wall), Note: n.LastNote(),
	}
	return n.trip
}

// cancel is another guard's decision. One that is only observed is recorded and asked for, and the run goes on.
func (n *Node) cancel(in *Input) {
	n.look()
	switch {
	case n.mustWait():
		in.Wait = true
	case n.phase != Running:
	case in.Observe || n.ObserveOnly:
		n.ask(*in.Verdict, in.Reason)
		in.Done = true
	default:
		n.decide(*in.Verdict, in.Reason)
		in.Trip = n.trip
	}
}

// mustWait reports whether what is to be done has to wait: for the record of the run's end, or for an answer of the
// host's that this step asks for.
func (n *Node) mustWait() bool { return n.phase == Recording || n.tree.asked }

// complete decides that the work is done.
func (n *Node) complete(in *Input) {
	switch n.phase {
	case Running:
		in.Trip = n.beginTrip()
		in.Trip.Complete, in.Trip.Command = true, n.CommandEnd()
	case Recording:
		in.Wait = true
	}
}

// conclude makes what the store knows of the window what every reader sees, at once.
func (n *Node) conclude(in *Input) {
	t, known := in.Trip, in.Window
	switch {
	case known.Complete():
		n.end(Effect{Cause: ErrComplete})
	case known.Stop != nil:
		n.end(Effect{Stop: known.Stop})
	default: // given more time by another process, or not complete after all
		n.phase, n.trip = Running, nil
		for _, s := range t.meanwhile {
			n.trace(s)
		}
		if t.Complete {
			n.trace(signal(verdict.Signal{Kind: verdict.SignalIncomplete, At: n.now(), From: t.Elapsed}))
		}
		from := len(n.tree.Room)
		n.learn(known)
		t.traceTakenBack(n, n.tree.Room[from:])
		n.tree.endWithParent() // which may have ended meanwhile
		n.endWithOuter()
	}
	n.trip = nil
}

// adopt does what the store says, unless the run has ended meanwhile.
func (n *Node) adopt(in *Input) {
	switch known := in.Window; {
	case n.phase == Recording:
		in.Wait = true
		return
	case n.phase != Running:
		return
	case known.Complete():
		n.end(Effect{Cause: ErrComplete})
	case known.Stop != nil:
		n.end(Effect{Stop: known.Stop})
	default:
		n.learn(known)
	}
	in.Done = true
}

// learn counts what others gave a run that goes on.
func (n *Node) learn(known *fold.Window) {
	n.learnPauses(known.Paused())
	n.takeExtensions(known)
}

// endFor ends the run for its host.
func (n *Node) endFor(in *Input) {
	switch n.phase {
	case Recording:
		in.Wait = true
	case Running:
		n.end(Effect{Cause: in.Cause})
		in.Done = true
	}
}

// endWithParent ends a running session whose parent has ended, with its layers.
func (t *Tree) endWithParent() {
	n, parent := t.session, t.now.Parent
	if parent == nil || n == nil || n.phase != Running {
		return
	}
	n.end(Effect{Cause: parent.Cause, ByParent: true})
	if n.Records {
		n.recordParentEnd(parent)
	}
}

// endWithOuter ends a running layer whose run has ended.
func (n *Node) endWithOuter() {
	if n.outer != nil && n.outer.phase == Over && n.phase == Running {
		n.end(Effect{ByParent: true})
	}
}

// end moves a run to its end: with a cause, by a stop, or with the run around it.
func (n *Node) end(by Effect) {
	defer func(before bool) { n.tree.ending = before }(n.tree.ending)
	n.tree.ending = true
	n.rememberProgress()
	n.traceEnd()
	n.phase = Over
	n.dropInquiry()
	n.LookClosely()
	n.tree.queue.remove(n)
	n.part()
	by.Kind, by.Node = Ended, n
	n.tree.emit(by)
	n.closeHolds()
	for layer := n.kin.layers; layer != nil; { // one whose end is being recorded stays until that is done
		next := layer.kin.next
		layer.endWithOuter()
		layer = next
	}
	if !n.Pending.Empty() { // nobody looks any more
		n.tree.emit(Effect{Kind: Retry, Node: n})
	}
}

// traceEnd traces the run's end, which was when it was decided, however long its record took.
func (n *Node) traceEnd() {
	at := n.now()
	if n.trip != nil {
		at, n.trip = n.trip.Elapsed, nil
	}
	n.trace(signal(verdict.Signal{Kind: verdict.SignalEnd, At: at}))
}
