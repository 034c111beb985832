package watchdog

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/alarm"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/uptime"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A tree drives the machine of a session and all its layers: it has their lock, their clock and their timer. What a
// step asks for is done in two parts. Contexts are ended while the lock is held, so that whoever looks sees the end and
// its cause at once; that runs no code of the host's. The rest is a [work], for when the lock is free.
//
// The order of the locks. Who holds one may take those below it, and none of another session:
//
//	lanes.mu             which runs wait for which store
//	  tree.mu            where the session and its layers stand, their clocks, what they spent, what the store lacks
//	    share.shared.mu  which limits of scopes runs of this process share
//	    share.Limit.mu   what this process holds of a limit that a store keeps, in the order of their numbers
//	    readers.mu       who is to be told of directives
//	    trace.mu         what the host's OnSignal is still to be told
//	    alarm.Queue.mu   the timer of all runs, and that of lanes
//	survey.mu            who has answered of the runs whose Busy was asked together; alone
//	looper.mu            the loop detector of a run; alone
//	digests.mu           the digests of progress; alone
//
// The host's code (callbacks, loggers, hooks, stores) runs under none of them. Its clock is read, and its timers are
// set, under tree.mu and lanes.mu.
type tree struct {
	mu      sync.Mutex
	machine machine.Tree
	clock   runClock
	recording
	trace *trace // nil if the host keeps none

	parent     context.Context // nil if it never ends
	stopParent func() bool
	runs       []*run // by the numbers of their nodes; nil where a layer has ended
	free       []int
	session    [1]*run // room for a session alone

	item  alarm.Item[tree]
	timer clocks.Timer  // in place of item if the clock is not the machine's
	armed time.Duration // for when, at the earliest
	// ringing tells that the timer takes the step.
	ringing bool
}

// A work is what a step leaves to do once the lock is free.
type work struct {
	runs   []*run    // that have something to record
	later  []*run    // whose store is to be asked again later
	again  []retrial // work that is to be begun again
	asks   []*asking // the host
	left   []func()  // code of the host's that nobody waits for
	stop   *Stop     // of the run that the step was about
	ending *ending   // of that
	behind bool      // the store lacks something of it, or the host was not told of something
}

// nothing reports that there is nothing to do.
func (k *work) nothing() bool {
	return len(k.runs)+len(k.later)+len(k.again)+len(k.asks)+len(k.left) == 0
}

// idle reports that a poll has nothing else to do either.
func (k *work) idle() bool { return k.nothing() && k.ending == nil && !k.behind }

// rooms are what the effects of steps are put in.
var rooms = sync.Pool{New: func() any { return &[]machine.Effect{} }}

// step takes an input now.
func (t *tree) step(r *run, in *machine.Input) work {
	parent := t.parentEnd()
	t.mu.Lock()
	defer t.mu.Unlock()
	var k work
	t.stepAt(&k, t.now(parent), r, in)
	return k
}

// stepAt takes an input at an instant. The caller holds mu.
func (t *tree) stepAt(k *work, now machine.Now, r *run, in *machine.Input) {
	in.Node = &r.node
	shared := t.session[0].account.Load().own().drawn()
	shared.lock()
	room := rooms.Get().(*[]machine.Effect)
	t.machine.Room = *room
	effects := t.machine.Step(now, in)
	t.apply(effects, k)
	t.machine.Room, *room = nil, effects
	rooms.Put(room)
	shared.unlock()
	k.stop, k.ending = r.stop, r.ending
	k.behind = !r.node.Pending.Empty() || r.job != nil || r.news != nil || t.trace.waiting() || shared != nil
}

// parentEnd is how the parent of the session has ended, nil if it has not. That is the host's to say, so it is asked
// before the lock.
func (t *tree) parentEnd() *machine.ParentEnd {
	if t.parent == nil || t.parent.Err() == nil {
		return nil
	}
	return &machine.ParentEnd{
		Cause: context.Cause(t.parent), Deadline: errors.Is(t.parent.Err(), context.DeadlineExceeded),
	}
}

// now reads every clock there is. The caller holds mu.
func (t *tree) now(parent *machine.ParentEnd) machine.Now {
	wall := clocks.Now(t.clock.other)
	at := t.clock.elapsedAt(wall)
	return machine.Now{
		At: at, Offset: t.clock.offset(), Wall: wall, Machine: t.clock.other == nil, Parent: parent,
	}
}

// apply does what has to be done under the lock, and notes the rest. The caller holds mu.
func (t *tree) apply(effects []machine.Effect, k *work) { //nolint:cyclop // a table
	for i := range effects {
		e := &effects[i]
		r := t.runs[e.Node.Number]
		switch e.Kind {
		case machine.Ended:
			r.end(e, k)
		case machine.Exchange:
			r.ending = &ending{trip: e.Trip, began: clocks.Now(t.clock.other), done: make(chan struct{})}
			if !t.ringing && !t.inline { // whoever found it waits
				r.ending.told = make(chan struct{})
			}
			r.wants(k)
		case machine.Record:
			if e.Entry.Notice != nil && e.Entry.Notice.Directive() {
				r.line(e.Entry)
			}
			r.untold = append(r.untold, e.Entry)
			r.wants(k)
		case machine.Leave:
			if r.node.Phase() != machine.Over {
				r.untold = append(r.untold, e.Entry)
				if !t.inline {
					r.wants(k)
				}
			}
		case machine.Retry:
			k.later = append(k.later, r)
		case machine.Again:
			if tries := r.takeTries(); len(tries) > 0 {
				k.again = append(k.again, retrial{r.lined(e.Entry), tries})
			}
		case machine.Ask:
			r.asking = &asking{r: r, inquiry: e.Inquiry, done: make(chan struct{})}
			k.asks = append(k.asks, r.asking)
		case machine.Answered:
			close(r.asking.done)
			r.asking = nil
		case machine.Unpaused:
			k.left = append(k.left, r.takeReleased()...)
		case machine.Traced:
			t.trace.add(r.signalOf(e.Signal))
		}
	}
	t.remove(effects)
	clear(effects) // they keep layers in memory
	t.arm()
}

// remove lets go of the layers that have ended. The caller holds mu.
func (t *tree) remove(effects []machine.Effect) {
	for i := range effects {
		if n := effects[i].Node; effects[i].Kind == machine.Ended && t.runs[n.Number].outer != nil {
			t.runs[n.Number], t.free = nil, append(t.free, n.Number)
		}
	}
}

// end ends the context of a run. The caller holds mu.
func (r *run) end(e *machine.Effect, k *work) {
	t, cause := r.tree, e.Cause
	switch {
	case e.Stop != nil:
		r.stop = stopOf(e.Stop, r.node.Run)
		cause = r.stop
		r.newsOf().stop = r.stop
		r.news.asleep = append(r.news.asleep, r.enqueueStop()...)
	case cause == nil:
		cause = r.outer.cause()
	}
	r.byParent, r.complete = e.ByParent, !e.ByParent && cause == ErrComplete //nolint:errorlint // the machine's own
	r.cancel(cause)
	for _, one := range r.takeTries() {
		why := cause // stays off the heap where there is none
		k.left = append(k.left, func() { one.cancel(why) })
	}
	for h := r.holds; h != nil; h = h.next {
		stop := h.stopContext
		k.left, h.stopContext = append(k.left, func() { stop() }), nil
	}
	if r.holds = nil; r.outer == nil {
		t.disarm(k)
	}
}

// disarm lets go of the timer and the parent. The caller holds mu.
func (t *tree) disarm(k *work) {
	if t.timer != nil {
		t.timer.Stop()
	} else {
		alarms.Remove(&t.item)
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

// add gives a run its number. The caller holds mu.
func (t *tree) add(r *run) {
	if n := len(t.free); n > 0 {
		r.node.Number, t.free = t.free[n-1], t.free[:n-1]
		t.runs[r.node.Number] = r
		return
	}
	if t.runs == nil {
		t.runs = t.session[:0]
	}
	r.node.Number, t.runs = len(t.runs), append(t.runs, r)
}

// alarms is the one timer of all sessions on the machine's clock, laneAlarms that of the lanes that try again.
var (
	alarms     *alarm.Queue[tree]
	laneAlarms *alarm.Queue[lane]
)

// Set in init to break an initialization cycle: what rings sets alarms.
func init() {
	began := uptime.Start(time.Now())
	slept := func() time.Duration { return began.Slept(time.Now()) }
	alarms, laneAlarms = alarm.New(ringAll, slept), alarm.New(retryAll, slept)
}

// arm sets the timer for the run that is due first. One that is set for an earlier time stays. The caller holds mu.
func (t *tree) arm() {
	due := t.machine.Due()
	if t.inline || due >= t.armed {
		return
	}
	t.armed = due
	switch wait := due - t.clock.last; {
	case t.clock.base.Machine():
		alarms.Within(&t.item, wait)
	case t.timer == nil:
		t.timer = clocks.AfterFunc(t.clock.other, t.clock.patience(wait), t.ringOne)
	default:
		t.timer.Reset(t.clock.patience(wait))
	}
}

// ring has the timer look at the runs that are due.
func (t *tree) ring() work {
	parent := t.parentEnd()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed, t.ringing = verdict.Never, true
	defer func() { t.ringing = false }()
	var k work
	t.stepAt(&k, t.now(parent), t.session[0], &machine.Input{Kind: machine.Tick})
	return k
}

// ringOne is what a timer of the session's own does.
func (t *tree) ringOne() {
	k := t.ring()
	if t.instant() { // nobody has to wait for another goroutine
		for _, r := range k.runs {
			r.carry(clocks.Now(t.clock.other))
		}
		k.runs = nil
	}
	k.doAside(t)
}

// ringAll is what the timer of all sessions does for those that are due. It does not block.
func ringAll(due []*tree) {
	var all []work
	for _, t := range due {
		all = append(all, t.ring())
	}
	doTogether(all, due)
}

// doTogether does the work of several sessions on other goroutines.
func doTogether(all []work, of []*tree) {
	s := &survey{}
	var runs []*run
	for i := range all {
		k := &all[i]
		s.asks, runs = append(s.asks, k.asks...), append(runs, k.runs...)
		k.asks, k.runs = nil, nil
		k.doAside(of[i])
	}
	for next := range slices.Chunk(runs, batchSize) {
		enqueueAll(next)
	}
	s.ask()
}

// doAside does the work on other goroutines.
func (k *work) doAside(t *tree) {
	for _, one := range k.asks {
		one.ask(one.r.lookAgain)
	}
	k.endTries()
	for _, r := range k.runs {
		r.enqueue()
	}
	k.finish()
	if t.trace.waiting() {
		go t.deliverTrace()
	}
}

// do does the work for a caller that has waited since began, which asks the host itself. With PollOnly it is done here,
// and waits for the store no longer than the record timeout since then.
func (k *work) do(t *tree, began time.Time) {
	k.pass(t, began)
	t.deliverTrace()
}

// doAll is do for who waits for nothing, not for the host's answers either.
func (k *work) doAll(t *tree) {
	if !k.nothing() {
		for _, one := range k.asks {
			one.ask(one.r.lookAgain)
		}
		k.do(t, clocks.Now(t.clock.other))
		return
	}
	t.deliverTrace()
}

// pass is do for who has to go on, and has the host told later.
func (k *work) pass(t *tree, began time.Time) {
	if !k.nothing() {
		defer k.finish() // also if the store ends this goroutine
		k.endTries()
		k.record(t, began)
	}
}

// record has the runs recorded, with PollOnly here.
func (k *work) record(t *tree, began time.Time) {
	if t.inline {
		carryAll(k.runs, began)
		return
	}
	for _, r := range k.runs {
		r.enqueue()
	}
}

// endTries ends the work that is to be begun again.
func (k *work) endTries() {
	for _, one := range k.again {
		one.carryOut()
	}
}

// finish does what nobody waits for.
func (k *work) finish() {
	for _, r := range k.later {
		r.tryLater()
	}
	if left := k.left; len(left) > 0 {
		go each(left, callLog)
	}
}
