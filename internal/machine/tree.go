// Package machine decides about a session and all its layers: what their limits, signals, holds and ladders come to,
// what ends them, and what has to be recorded of that.
//
// A [Tree] is a session with its layers, a [Node] is one of these runs. Whatever happens to them is an [Input]: what
// the host called, what the store answered, that an instant came, that the parent ended. [Tree.Step]
// takes one at an instant, changes the state, and returns the effects: what to end, to record, to ask and to tell.
//
// The package has no clock, no lock, no goroutine, no context and no store, and calls nothing of the host's. Whoever
// drives a tree holds a lock for it. Two things of a run are written without that, see [Port]: its signs of life, and
// until when a poll has nothing to look for. What is exceeded when is for package verdict, what the events of a run
// come to for package fold, what is charged for package ledger.
package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ordered"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Tree is a session with all its layers, in one state. Its zero value is one without runs.
//
// Rejected: a state for each run. What concerns several of them was done one after the other then, and was seen half
// done in between.
type Tree struct {
	// Room is what a step needs besides. A driver may lend it for a step; else the tree keeps one.
	Room *Room

	session *Node
	queue   ordered.Heap[*Node]
}

// A Room has what a step knows and returns.
type Room struct {
	now     Now
	effects []Effect
	ending  bool // a run is being ended
}

// A Now is the instant of a step.
type Now struct {
	// At is what has elapsed of the session's window, Offset that at the base of its clock, with what the machine slept
	// since. It never runs back.
	At, Offset time.Duration
	// Late is how long after the instant that it was set for the timer rang, or has not rung yet; 0 if it is not late.
	Late time.Duration
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
func (t *Tree) Step(now Now, in *Input) []Effect { //nolint:cyclop // a table
	if t.Room == nil {
		t.Room = &Room{}
	}
	t.Room.now, t.Room.effects = now, t.Room.effects[:0]
	n := in.Node
	if in.Kind != Begin {
		t.endWithParent()
	}
	switch in.Kind {
	case Begin:
		n.begin(t, in)
	case Attached: // the silence counts from now on: what the store took to answer is none
		if n.phase == Running && n.now() > n.seen.Attached {
			n.take(verdict.Signal{Kind: verdict.SignalAttached})
		}
		n.look()
	case Tick:
		for d := t.queue.Take(now.At); d != nil; d = t.queue.Take(now.At) {
			d.Of.look()
		}
	case Look:
		n.look()
	case LookAround:
		for ; n != nil; n = n.outer {
			n.look()
		}
	case Sign:
		n.sign(in.Progress)
	case Awaited:
		if n.phase == Running {
			n.rest(n.now())
		}
	case OpenHold, Cancel:
		n.look()
		n.act(in)
	case Complete, Adopt, End:
		n.act(in)
	case CloseHold:
		in.Done = n.release(in.Hold)
	case Recorded:
		n.conclude(in.Window)
	}
	return t.Room.effects
}

func (t *Tree) emit(e Effect) { t.Room.effects = append(t.Room.effects, e) }

// Due is when the tree has to be looked at again, in its time; [verdict.Never] for never.
func (t *Tree) Due() time.Duration { return t.queue.First() }

// begin begins a run: the session, or a layer of the run around.
func (n *Node) begin(t *Tree, in *Input) {
	n.tree, n.outer, n.began, n.due.Of = t, in.Around, t.Room.now.At-in.Elapsed, n
	if n.outer == nil {
		t.session = n
	}
	if in.Window != nil {
		n.takeUp(in.Window)
	} else {
		n.takeUp(&fold.Window{StartedAt: n.StartedAt}) // stays off the heap
	}
	if n.outer == nil {
		return
	}
	if n.kin.next = n.outer.kin.layers; n.kin.next != nil {
		n.kin.next.kin.before = n
	}
	n.outer.kin.layers = n
	if signs := t.session.seen.Signs; signs != nil { // the pauses of all, which are released for all layers
		for _, p := range signs.Pauses.Open(t.Room.now.At) {
			n.standWith(verdict.Signal{Kind: verdict.SignalPause, Key: p.ID, From: p.Opened, Length: p.Cap})
		}
	}
	n.look()
}

// part takes a run from its tree. A layer that was taken is left alone.
func (n *Node) part() {
	n.tree.queue.Remove(&n.due)
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

// pollGlance is how often a poll looks at the clock at least, because the machine may have slept.
const pollGlance = time.Second

// rest lets polls pass until the run has to be looked at, or until it is time to see whether the machine slept, and
// has the timer look then, unless nothing guards the run. What is due already is looked at now.
func (n *Node) rest(until time.Duration) {
	now, quiet := &n.tree.Room.now, time.Duration(0)
	if now.Machine && until > n.now() {
		if quiet = now.At - now.Offset + pollGlance; until != verdict.Never {
			quiet = min(quiet, until+n.began-now.Offset)
		}
	}
	n.quietUntil.Store(int64(quiet))
	if until != verdict.Never && !n.Disabled {
		n.tree.queue.Set(&n.due, until+n.began)
	}
}

// An InputKind says what happened.
type InputKind uint8

// The kinds of input. Each names the fields that it has besides the Node.
const (
	Begin      InputKind = iota + 1 // a run begins: Around, Elapsed, Window
	Parent                          // that of the session has ended
	Attached                        // an attach that took time is done: a look follows
	Tick                            // an instant came that runs are due at
	Look                            // somebody looks at the run
	LookAround                      // at the run and those around it
	Sign                            // a sign of life: Progress
	Awaited                         // a sign that waits to be looked at was noted in the pulse
	OpenHold                        // ID, Limits, Pauses, By, Gone; sets Hold, Held, Wait
	CloseHold                       // Hold, of this run; sets Done
	Cancel                          // another guard's: Guard; sets Done, Trip, Wait
	Complete                        // the work is done; sets Trip, Wait
	Recorded                        // the record of the run's trip was tried: Window
	Adopt                           // what the store has of the Window; sets Done, Wait
	End                             // the host ends the run: Cause; sets Done, Wait
)

// An Input is one thing that happened to a run. Wait is set where nothing was done, because the run's end is being
// recorded: then it is made again afterwards.
type Input struct {
	Kind InputKind
	Node *Node

	Around  *Node
	Elapsed time.Duration // of the window, when it is taken up
	Window  *fold.Window  // of a beginning: nil for one in which nothing was

	ID       verdict.HoldID
	Limits   verdict.HoldLimits
	Pauses   bool
	By       *record.Opener  // who opens the hold
	Gone     map[string]bool // the openings in [Node.Openers] whose openers are known to be gone
	Progress bool            // of a sign

	Hold  *Hold
	Guard *Guard
	Cause error

	Result
}

// A Guard is what another guard decided. If it is only observed the run goes on.
type Guard struct {
	Verdict verdict.Verdict
	Reason  string
	Observe bool
}

// A Result is what became of an input.
type Result struct {
	Done bool  // it had an effect
	Held bool  // a hold with the ID is open
	Trip *Trip // whose record is to be tried
	Wait bool
}

// An EffectKind says what is to be done.
type EffectKind uint8

// The kinds of effect. Ended is done under the lock of the tree.
const (
	Ended    EffectKind = iota + 1 // end the run's context: Cause, Stop, or ByParent that of the run around
	Exchange                       // the Trip is to be recorded
	Record                         // the Entry waits to be recorded
	Leave                          // the Entry does, which an end left: with PollOnly until the next poll
	Retry                          // what waits is to be tried later
	Again                          // work is to be begun again: Entry
	Unpaused                       // a pause of the run has ended
)

// An Effect is one thing that a step asks for.
type Effect struct {
	Kind  EffectKind
	Node  *Node
	Entry *Entry
	Trip  *Trip
	Stop  *record.Cancel
	Cause error
	// ByParent says that the parent of a session ended it, or the run around a layer, whose cause that is.
	ByParent bool
}
