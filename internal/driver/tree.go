// Package driver drives the machine of a session and its layers: it has their lock, their clocks and their timers, ends
// their contexts, and hands the rest of what a step asks for to those who carry it, the lanes of package lane and the
// receivers of the host's.
//
// A [Tree] is a session with its layers, a [Run] one of them. What is decided is for package machine to say. What the
// host is told, and in which words, is for a [Host]: the root package has one for each run.
//
// Rejected: to drive among the files of the API. They leaned on the driver and it on them, in a circle of 33 files.
//
// The package reads no config, checks nothing that the host gave, and makes no event.
package driver

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/alarm"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/lane"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Tree is a session with all its layers. What a step asks for is done in two parts. Contexts are ended while the lock
// is held, so that whoever looks sees the end and its cause at once; that runs no code of the host's. The rest is a
// [Work], for when the lock is free.
//
// The order of the locks. Who holds one may take those below it, and none of another session:
//
//	lane.lanes.mu        which runs wait for which store
//	  driver.Tree.mu     where the session and its layers stand, their clocks, what they spent, what the store lacks
//	    feed.Feed.mu     who is to be told of directives
//	      feed.queue.mu  what a subscriber is still to be told
//	    alarm.Queue.mu   the timer of all runs, and that of lanes
//	    journal.known.mu what this process knows of the run's events
//	digest.seen.mu       the digests of progress; alone
//
// The host's code (callbacks, loggers, hooks, stores) runs under none of them. Its clock is read, and its timers are
// set, under Tree.mu and lane.lanes.mu.
type Tree struct {
	mu      sync.Mutex
	machine machine.Tree
	clock   runClock
	journal.Place

	parent     context.Context // nil if it never ends
	stopParent func() bool
	session    *Run
	layers     *layers // nil while there are none

	item  alarm.Item[Tree]
	timer clocks.Timer  // in place of item if the clock is not the machine's
	armed time.Duration // for when, at the earliest
	// ringing tells that the timer takes the step.
	ringing bool
}

// rooms are what steps need.
var rooms = sync.Pool{New: func() any { return &machine.Room{} }}

// Lock locks the session and its layers.
func (t *Tree) Lock() { t.mu.Lock() }

// Unlock unlocks them.
func (t *Tree) Unlock() { t.mu.Unlock() }

// Step takes an input now.
func (t *Tree) Step(r *Run, in *machine.Input) Work {
	parent := t.parentEnd()
	t.mu.Lock()
	defer t.mu.Unlock()
	var k Work
	t.stepAt(&k, t.now(parent), r, in)
	return k
}

// Look has the runs that the input is about looked at. The caller holds the lock, and does the work once it is free.
func (t *Tree) Look(k *Work, r *Run, in *machine.Input) { t.stepAt(k, t.now(nil), r, in) }

// stepAt takes an input at an instant. The caller holds the lock.
func (t *Tree) stepAt(k *Work, now machine.Now, r *Run, in *machine.Input) {
	in.Node = &r.Node
	room := rooms.Get().(*machine.Room)
	t.machine.Room = room
	t.apply(t.machine.Step(now, in), k)
	t.machine.Room = nil
	rooms.Put(room)
	k.At, k.Stop, k.Ending = now.Wall, r.Stop(), r.Record.Ending()
	k.behind = r.Record.Behind() || r.news != nil
}

// parentEnd is how the parent of the session has ended, nil if it has not. That is the host's to say, so it is asked
// before the lock.
func (t *Tree) parentEnd() *machine.ParentEnd {
	if t.parent == nil || t.parent.Err() == nil {
		return nil
	}
	return &machine.ParentEnd{
		Cause: context.Cause(t.parent), Deadline: errors.Is(t.parent.Err(), context.DeadlineExceeded),
	}
}

// now reads every clock there is. The caller holds the lock.
func (t *Tree) now(parent *machine.ParentEnd) machine.Now {
	wall := clocks.Now(t.Clock)
	at := t.clock.elapsedAt(wall)
	return machine.Now{
		At: at, Offset: t.clock.offset(), Late: t.late(at), Wall: wall, Machine: t.Clock == nil, Parent: parent,
	}
}

// late is how late the timer rings, or is if it has not rung yet: whoever looks then knows as much as it will. Without
// a timer nothing is late: a host that polls when it likes does not say when it meant to. The caller holds the lock.
func (t *Tree) late(at time.Duration) time.Duration {
	switch {
	case at <= t.armed:
		return 0
	case t.clock.base.Machine():
		return alarms().Late(&t.item)
	}
	return at - t.armed
}

// apply does what has to be done under the lock, and notes the rest. The caller holds the lock.
func (t *Tree) apply(effects []machine.Effect, k *Work) { //nolint:cyclop // a table
	for i := range effects {
		e := &effects[i]
		r := t.run(e.Node)
		switch e.Kind {
		case machine.Ended:
			r.end(e, k)
		case machine.Exchange:
			end := &lane.Ending{Trip: e.Trip, Began: clocks.Now(t.Clock), Done: make(chan struct{})}
			if !t.ringing && !t.Inline { // whoever found it waits
				end.Told = make(chan struct{})
			}
			r.Record.End(end)
			k.recordOf(r)
		case machine.Record:
			if e.Entry.Notice != nil && e.Entry.Notice.Directive() {
				r.host.Asks(e.Entry)
			}
			r.Record.Add(e.Entry)
			k.recordOf(r)
		case machine.Leave:
			if r.Node.Phase() != machine.Over {
				r.Record.Add(e.Entry)
				if !t.Inline {
					k.recordOf(r)
				}
			}
		case machine.Retry:
			k.later = append(k.later, &r.Record)
		case machine.Again:
			if works := r.takeWorks(); len(works) > 0 {
				k.endAll(works, r.host.Again(e.Entry))
			}
		case machine.Unpaused:
			k.left = append(k.left, r.takeWaiters()...)
		}
	}
	t.remove(effects)
	clear(effects) // they keep layers in memory
	t.arm()
}

// remove lets go of the layers that have ended. The caller holds the lock.
func (t *Tree) remove(effects []machine.Effect) {
	for i := range effects {
		if n := effects[i].Node; effects[i].Kind == machine.Ended && n.Number > 0 {
			t.layers.runs[n.Number-1], t.layers.free = nil, append(t.layers.free, n.Number)
		}
	}
}

// disarm lets go of the timer and the parent. The caller holds the lock.
func (t *Tree) disarm(k *Work) {
	switch {
	case t.clock.base.Machine():
		alarms().Remove(&t.item)
	case t.timer != nil:
		t.timer.Stop()
	}
	stop := t.stopParent
	switch _, own := t.parent.(interface {
		AfterFunc(func()) (stop func() bool)
	}); {
	case stop == nil:
	case own: // it is code of the host's
		k.left = append(k.left, func() { stop() })
	default:
		stop()
	}
	t.stopParent = nil
}

// layers are those of a session by the numbers of their nodes, from 1; nil where one has ended.
type layers struct {
	runs []*Run
	free []int
}

// run is the one that a node is of. The caller holds the lock.
func (t *Tree) run(n *machine.Node) *Run {
	if n.Number == 0 {
		return t.session
	}
	return t.layers.runs[n.Number-1]
}

// add gives a layer its number. The caller holds the lock.
func (t *Tree) add(r *Run) {
	if t.layers == nil {
		t.layers = &layers{}
	}
	l := t.layers
	if n := len(l.free); n > 0 {
		r.Node.Number, l.free = l.free[n-1], l.free[:n-1]
		l.runs[r.Node.Number-1] = r
		return
	}
	l.runs = append(l.runs, r)
	r.Node.Number = len(l.runs)
}

var shared alarm.Shared[Tree]

// alarms is the one timer of all sessions on the machine's clock.
func alarms() *alarm.Queue[Tree] { return shared.Queue(RingAll) }

// arm sets the timer for the run that is due first. One that is set for an earlier time stays. The caller holds the
// lock.
func (t *Tree) arm() {
	due := t.machine.Due()
	if t.Inline || due >= t.armed {
		return
	}
	t.armed = due
	switch wait := due - t.clock.last; {
	case t.clock.base.Machine():
		alarms().Within(&t.item, wait)
	case t.timer == nil:
		t.timer = clocks.AfterFunc(t.Clock, t.clock.patience(wait), t.ringOne)
	default:
		t.timer.Reset(t.clock.patience(wait))
	}
}

// StopTimer stops the session's own timer, for tests.
func (t *Tree) StopTimer() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.timer.Stop()
}

func (t *Tree) ring() Work {
	parent := t.parentEnd()
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now(parent)
	t.armed, t.ringing = verdict.Never, true
	defer func() { t.ringing = false }()
	var k Work
	t.stepAt(&k, now, t.session, &machine.Input{Kind: machine.Tick})
	return k
}

// ringOne is what a timer of the session's own does.
func (t *Tree) ringOne() {
	k := t.ring()
	if t.Instant { // nobody has to wait for another goroutine
		lane.CarryAll(k.record, clocks.Now(t.Clock))
		k.record = nil
	}
	k.doAside()
}

// ringSize is how many sessions ring together at the most.
const ringSize = 512

// RingAll is what the timer of all sessions does for those that are due. It does not block. Of many, those that rang
// are recorded while the others ring.
func RingAll(due []*Tree) {
	for some := range slices.Chunk(due, ringSize) {
		all := make([]Work, len(some))
		for i, t := range some {
			all[i] = t.ring()
		}
		doTogether(all)
	}
}
