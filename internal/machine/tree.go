package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Tree is a session with all its layers, in one state. Its zero value is one without runs.
//
// Rejected: a state for each run. What concerns several of them was done one after the other then, and was seen half
// done in between.
type Tree struct {
	// Traced has the signals among the effects.
	Traced bool
	// Room is what effects are put in. A driver may lend it for a step.
	Room []Effect

	now     Now
	session *Node
	queue   queue
	asked   bool // in this step the host is asked for something
	ending  bool // a run is being ended
}

// A Now is the instant of a step.
type Now struct {
	// At is what has elapsed of the session's window, Offset that at the base of its clock, with what the machine slept
	// since. It never runs back.
	At, Offset time.Duration
	// Wall is what people and databases read.
	Wall time.Time
	// Machine says that the clock is the machine's, which pulses go by.
	Machine bool
	// Parent is how the session's parent has ended, nil if it has not.
	Parent *ParentEnd
}

// A ParentEnd is how the parent of a session has ended.
type ParentEnd struct {
	Cause    error
	Deadline bool // by its deadline
}

// Step takes an input at an instant, and returns what is to be done. The effects hold until the next step.
func (t *Tree) Step(now Now, in *Input) []Effect { //nolint:cyclop,funlen // a table
	t.now, t.Room, t.asked = now, t.Room[:0], false
	n := in.Node
	if in.Kind != Begin {
		t.endWithParent()
	}
	switch in.Kind {
	case Begin:
		t.begin(in)
	case Attached:
		n.attached()
	case Tick:
		t.tick()
	case Look:
		n.look()
	case LookAround:
		for ; n != nil; n = n.outer {
			n.look()
		}
	case Sign:
		n.sign(in)
	case Awaited:
		if n.phase == Running {
			n.lookSoon()
		}
	case OpenHold:
		n.openHold(in)
	case CloseHold:
		in.Hold.release(in)
	case Cancel:
		n.cancel(in)
	case Complete:
		n.complete(in)
	case Recorded:
		n.conclude(in)
	case Adopt:
		n.adopt(in)
	case End:
		n.endFor(in)
	case Asked:
		n.asked(in)
	case Answer:
		n.answer(in)
	case Returned:
		n.extras().busy.calling = false
	case Counted:
		t.traceCall(in)
	case Told:
		t.told(in)
	}
	return t.Room
}

func (t *Tree) emit(e Effect) { t.Room = append(t.Room, e) }

// Due is when the tree has to be looked at again, in its time; [verdict.Never] for never.
func (t *Tree) Due() time.Duration { return t.queue.first() }

// tick looks at the runs that are due.
func (t *Tree) tick() {
	for n := t.queue.take(t.now.At); n != nil; n = t.queue.take(t.now.At) {
		n.look()
	}
}

// each makes the call for all that is inside the run. The call may end layers.
func (n *Node) each(call func(*Node)) {
	for layer := n.kin.layers; layer != nil; {
		next := layer.kin.next
		call(layer)
		layer.each(call)
		layer = next
	}
}

// join puts a layer among those of its run.
func (n *Node) join() {
	around := n.outer
	if n.kin.next = around.kin.layers; n.kin.next != nil {
		n.kin.next.kin.before = n
	}
	around.kin.layers = n
	n.pauseWithRun()
}

// part takes a layer from those of its run. It does nothing for one that was taken.
func (n *Node) part() {
	at := &n.kin
	switch {
	case n.outer == nil:
		return
	case at.before != nil:
		at.before.kin.next = at.next
	case n.outer.kin.layers == n:
		n.outer.kin.layers = at.next
	}
	if at.next != nil {
		at.next.kin.before = at.before
	}
	at.next, at.before = nil, nil
}

// begin begins a run: the session, or a layer of the run around.
func (t *Tree) begin(in *Input) {
	n := in.Node
	n.tree, n.outer, n.began = t, in.Around, t.now.At-in.Elapsed
	n.due.index = -1
	if n.outer == nil {
		t.session = n
	}
	n.takeUp(in.Window)
	if n.outer != nil {
		n.join()
		n.look()
	}
}

// arm has the run looked at again, unless nothing guards it.
func (n *Node) arm(at time.Duration) {
	if at != verdict.Never && !n.Disabled {
		n.tree.queue.set(n, at+n.began)
	}
}

// lookSoon has the next poll look closely, and the timer at once.
func (n *Node) lookSoon() {
	n.LookClosely()
	n.arm(n.now())
}

// pollGlance is how often a poll looks at the clock at least, because the machine may have slept.
const pollGlance = time.Second

// beQuiet lets polls pass until the instant, or until it is time to see whether the machine slept.
func (n *Node) beQuiet(next time.Duration) {
	now := &n.tree.now
	if !now.Machine {
		return
	}
	until := now.At - now.Offset + pollGlance
	if next != verdict.Never {
		until = min(until, next+n.began-now.Offset)
	}
	n.quietUntil.Store(int64(until))
}
