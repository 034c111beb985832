package machine

import (
	"errors"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/fold"
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

// takeUp puts a run where its window stands.
func (n *Node) takeUp(found *fold.Window) {
	n.StartedAt = found.StartedAt
	n.seen.Attached = n.now()
	n.seen.Extended = found.Extended
	budget := verdict.Sum(n.Limits.WallClock, n.seen.Extended).Seconds()
	n.seen.Warned = found.WarnedOf(fold.Key{}, n.Limits.WarnAt, budget)
	n.seen.Wrapped = found.WrappedUp(fold.Key{}, budget)
	if s := n.seen.Spend; s != nil {
		for i := range s.Limits {
			restoreCount(s, i, n.Limits.Ladders, found)
		}
	}
	if found.Stop != nil {
		n.phase = Over
		n.tree.emit(Effect{Kind: Ended, Node: n, Stop: found.Stop})
		return
	}
	n.restore(found)
}

// act does what concerns a run that goes on. It has to wait for the record of the run's end.
func (n *Node) act(in *Input) {
	in.Wait = n.phase == Recording
	if n.phase != Running {
		return
	}
	switch in.Kind {
	case OpenHold:
		n.openHold(in)
	case Cancel:
		n.cancel(in)
	case Complete:
		in.Trip = n.beginTrip()
		in.Trip.Complete = true
		if end := n.Command(); end != nil {
			in.Trip.Command = *end
		}
	case Adopt:
		if in.Done = true; n.goesOn(in.Window) {
			n.learn(in.Window)
		}
	case End:
		n.end(Effect{Cause: in.Cause})
		in.Done = true
	}
}

func (n *Node) cancel(in *Input) {
	g := in.Guard
	if in.Done = g.Observe || n.ObserveOnly; in.Done { // it is recorded and asked for, and the run goes on
		n.tell(g.Verdict, g.Reason)
		return
	}
	n.decide(g.Verdict, g.Reason)
	in.Trip = n.trip
}

// decide makes the verdict the run's end: from here on nothing else can end it.
func (n *Node) decide(v verdict.Verdict, reason string) {
	t := n.beginTrip()
	t.Verdict, t.Reason, t.Spend = v, reason, spendOf(n.Account, &v)
	t.On, t.LeftOpen = fold.KeyOf(v.Limit, v.Hold, t.Spend), n.leftOpen(&v)
	t.Given = givenTo(n.seen.Spend, t.Spend)
	if v.Limit == verdict.WallClock { // what takes it back, and costs as much as there are pauses
		t.Pauses = n.seen.KnownPauses()
	}
	n.tree.emit(Effect{Kind: Exchange, Node: n, Trip: t})
}

func (n *Node) beginTrip() *Trip {
	n.Draw()
	n.phase = Recording
	n.LookClosely()
	now := n.now()
	n.trip = &Trip{
		Trip: fold.Trip{
			Extended: n.seen.Extended, Elapsed: now, Paused: verdict.Paused(n.seen, now),
		},
		At: event.Truncate(n.tree.Room.now.Wall), Note: n.LastNote(), Spent: spentOf(n.Account),
	}
	return n.trip
}

// conclude makes what the store knows of the window what every reader sees, at once.
func (n *Node) conclude(known *fold.Window) {
	if !n.goesOn(known) {
		return
	}
	n.phase, n.trip = Running, nil // given more time by another process, or not complete after all
	n.learn(known)
	n.tree.endWithParent() // which may have ended meanwhile
	n.endWithOuter()
}

// goesOn reports whether the window goes on, in which the run ends otherwise.
func (n *Node) goesOn(known *fold.Window) bool {
	switch {
	case known.Complete():
		n.end(Effect{Cause: ErrComplete})
	case known.Stop != nil:
		n.end(Effect{Stop: known.Stop})
	default:
		return true
	}
	return false
}

// endWithParent ends a running session whose parent has ended, with its layers. That is recorded by the parent's error
// and not by its cause, whose text is the host's.
func (t *Tree) endWithParent() {
	n, parent := t.session, t.Room.now.Parent
	if parent == nil || n == nil || n.phase != Running {
		return
	}
	n.end(Effect{Cause: parent.Cause, ByParent: true})
	if !n.Records {
		return
	}
	name := "parent_canceled"
	if parent.Deadline {
		name = "parent_deadline_exceeded"
	}
	n.record(NewEntry(&Loss{"an interrupt", []any{"signal", name}}, n.Moment(t.Room.now).Interrupt(name, "")))
}

// endWithOuter ends a running layer whose run has ended.
func (n *Node) endWithOuter() {
	if n.outer != nil && n.outer.phase == Over && n.phase == Running {
		n.end(Effect{ByParent: true})
	}
}

// end moves a run to its end: with a cause, by a stop, or with the run around it.
func (n *Node) end(by Effect) {
	defer func(before bool) { n.tree.Room.ending = before }(n.tree.Room.ending)
	n.tree.Room.ending = true
	if n.more != nil && len(n.more.given) > 0 { // the last progress is remembered
		n.takePulse(&n.tree.Room.now)
		n.resetLadders()
	}
	n.phase, n.trip = Over, nil
	n.LookClosely()
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
