package driver

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/uptime"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// Init makes the tree that of a session, whose parent is the context. It is hooked to that by [Tree.Start].
func (t *Tree) Init(ctx context.Context, place journal.Place, r *Run, host Host, name machine.Name) {
	t.Place = place
	t.item.Owner, t.session = t, r
	r.init(t, host, name)
	if ctx.Done() != nil {
		t.parent, ctx = ctx, context.WithoutCancel(ctx)
	}
	r.inner, r.cancel = context.WithCancelCause(ctx)
}

// InitLayer makes the run a layer of the one around, with the values of the context.
func (r *Run) InitLayer(ctx context.Context, around *Run, host Host, name machine.Name) {
	r.outer = around
	r.init(around.Tree, host, name)
	r.inner, r.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
}

func (r *Run) init(t *Tree, host Host, name machine.Name) {
	r.Tree, r.host, r.Node.Name = t, host, name
	r.Record.Open(&t.Place, r)
}

// Discard ends the context of a run that is not begun.
func (r *Run) Discard(cause error) { r.cancel(cause) }

// TakeUp puts the session where its window stands, at an instant of the clock. It copies what it keeps of found.
func (t *Tree) TakeUp(found *fold.Window, at time.Time) {
	r := t.session
	var window *fold.Window
	if !found.Blank() { // else it stays off the heap
		known := *found
		window = &known
	}
	t.mu.Lock()
	r.Node.StartedAt = found.StartedAt
	elapsed := max(at.Sub(found.StartedAt), 0)
	t.clock, t.armed = newRunClock(t.Clock, at, at.Sub(found.StartedAt)), verdict.Never
	t.Place.Machine = t.clock.base.Machine()
	var k Work
	t.stepAt(&k, machine.Now{
		At: elapsed, Offset: t.clock.offset(), Wall: at, Machine: t.Clock == nil,
	}, r, &machine.Input{Kind: machine.Begin, Elapsed: elapsed, Window: window})
	r.news = nil // who finds a stop is told by New
	t.mu.Unlock()
	k.doAside()
}

// Start arms a session that is attached and has not fired, and fires it if it is late. It returns when it began.
func (t *Tree) Start() (began time.Time) {
	t.followParent()
	r := t.session
	k := t.Step(r, &machine.Input{Kind: machine.Attached})
	began = k.At
	k.Pass(t, began)
	if k.Ending != nil {
		<-k.Ending.Done // and not until the host's log has taken it: each of many late runs would wait for one that hangs
	}
	return began
}

// BeginLayer begins a layer in a window that begins now. The caller has waited since began. It fires one that is late.
func (r *Run) BeginLayer(elapsed time.Duration, window *fold.Window, began time.Time) {
	t := r.Tree
	in := machine.Input{Kind: machine.Begin, Around: &r.outer.Node, Elapsed: elapsed, Window: window}
	parent := t.parentEnd()
	t.mu.Lock()
	t.add(r)
	var k Work
	t.stepAt(&k, t.now(parent), r, &in)
	t.mu.Unlock()
	k.Pass(t, began)
	if k.Ending != nil {
		<-k.Ending.Done // and not until the host's log has taken it: each of many late runs would wait for one that hangs
	}
}

// followParent has the parent tell of its end, unless the session has ended. It can be the host's code, as can what
// stops it.
func (t *Tree) followParent() {
	r := t.session
	if t.parent == nil || r.Over() {
		return
	}
	stop := context.AfterFunc(t.parent, t.checkParent)
	over := false
	r.Locked(func() {
		if over = r.over(); !over {
			t.stopParent = stop
		}
	})
	if over {
		stop()
	}
}

// CheckParent ends a running session whose parent has ended, with its layers. Nothing of the host's is called on this
// goroutine, because whoever looks at a context may hold locks, such as that of another session.
func (r *Run) CheckParent() {
	if r.inner.Err() == nil {
		r.Tree.checkParent()
	}
}

func (t *Tree) checkParent() {
	if t.parent != nil && t.parent.Err() != nil {
		t.session.Step(&machine.Input{Kind: machine.Parent})
	}
}

// Err is why the run's context is done, nil if it is not. A run that its parent ended has the parent's error.
func (r *Run) Err() error {
	if r.CheckParent(); r.inner.Err() == nil {
		return nil
	}
	for ; ; r = r.outer {
		byParent := false
		r.Locked(func() { byParent = r.byParent })
		switch {
		case !byParent:
			return r.inner.Err()
		case r.outer == nil:
			return r.Tree.parent.Err()
		}
	}
}

// Deadline is that of the session's parent.
func (r *Run) Deadline() (time.Time, bool) {
	if r.Tree.parent == nil {
		return time.Time{}, false
	}
	return r.Tree.parent.Deadline()
}

// A runClock tells how much real time of a session's window has elapsed. It never runs backwards and includes the time
// that the machine slept. On the machine's clock it is the monotonic clock plus what the machine slept; on any other it
// is what the clock shows, without steps back.
type runClock struct {
	base   uptime.Mark   // the reading at which the run was attached
	atBase time.Duration // what had elapsed by then
	slept  time.Duration // what the machine slept since
	last   time.Duration // what had elapsed at the last reading
	other  *otherClock   // nil is the machine's
}

// An otherClock is the host's, which may be set.
type otherClock struct {
	clocks.Clock
	began time.Time
	meter verdict.MonotonicClock
}

// newRunClock starts at now, elapsed after the window's start.
func newRunClock(other clocks.Clock, now time.Time, elapsed time.Duration) runClock {
	if other == nil {
		return runClock{base: uptime.Start(now), atBase: max(elapsed, 0), last: max(elapsed, 0)}
	}
	o := &otherClock{Clock: other, began: now}
	o.meter = verdict.NewMonotonicClock(elapsed, o.reading())
	return runClock{base: uptime.At(now), last: max(elapsed, 0), other: o}
}

// elapsedAt is what has elapsed, for who has just read the machine's clock.
func (c *runClock) elapsedAt(now time.Time) time.Duration {
	if c.other != nil {
		c.last = c.other.meter.Read(c.other.reading())
		return c.last
	}
	c.slept = max(c.slept, c.base.Slept(now))
	c.last = max(c.last, c.atBase+now.Sub(c.base.Time())+c.slept)
	return c.last
}

func (c *runClock) elapsed() time.Duration { return c.elapsedAt(time.Now()) }

// offset is what had elapsed at the base, with what the machine slept since.
func (c *runClock) offset() time.Duration { return c.atBase + c.slept }

func (o *otherClock) reading() time.Duration {
	if count, counts := clocks.Uptime(o.Clock); counts {
		return count
	}
	return o.Now().Sub(o.began)
}

// patience is how long a timer of the session's own may wait. Where the machine's sleep shows in the clock but not in
// the timer, it waits no longer than until the next glance.
func (c *runClock) patience(wait time.Duration) time.Duration {
	switch {
	case c.other != nil:
		return clocks.Patience(c.other.Clock, wait)
	case uptime.Exact:
		return wait
	}
	return min(wait, clocks.Glance)
}
