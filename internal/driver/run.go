package driver

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/lane"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/procid"
	"github.com/seed62658d38/watchdog/internal/record"
)

// A Host is a run as its host has it: what is told of it, in the host's own types.
type Host interface {
	Log() *slog.Logger

	// The lock is held during these four, which call no code of the host's. Stopped returns the cause of the run's end
	// that a stop is. Asks puts a directive in line for its readers, Asked says that its record was tried, Again is what
	// ends the work that it has begun again.
	Stopped(stop *record.Cancel) error
	Asks(directive *machine.Entry)
	Asked(directive *machine.Entry)
	Again(directive *machine.Entry) error

	// Warns reports whether Warn does anything.
	Warns() bool
	Warn(o *machine.Notice)
	// Deliver has the readers of directives called: here, or each on a goroutine of its own.
	Deliver(here bool)
	// ReportStop tells the log of the stop, and why it could not be recorded.
	ReportStop(recordErr error)
}

// A Run is one run of a tree. The lock guards what changes and is not atomic.
type Run struct {
	Node   machine.Node
	Record lane.Recorder
	Tree   *Tree
	outer  *Run // the run around a layer
	host   Host

	inner  context.Context
	cancel context.CancelCauseFunc
	ended

	dependents *Dependent // the first one
	news       *news      // what the host is still to be told; nil for nothing
	more       *extras    // nil if there is nothing in it
}

// ended is how a run has ended.
type ended struct {
	fired    bool // the cause of its context is the stop
	complete bool
	byParent bool // the parent ended it; two causes cannot tell, which may be equal, or not to be compared
}

// extras are what few runs have.
type extras struct {
	waiters map[handle.Waiter]struct{} // for the end of a pause
	failed  failedCompletes
	opener  *record.Opener // of a session: who opens its holds
}

// extras are made at the first need. The caller holds the lock.
func (r *Run) extras() *extras {
	if r.more == nil {
		r.more = &extras{}
	}
	return r.more
}

// Await has the waiter told once, on a goroutine of its own, when the wall clock goes on, unless the run has ended or
// it is forgotten by then. The caller holds the lock.
func (r *Run) Await(w handle.Waiter) {
	if r.over() {
		return
	}
	if r.extras().waiters == nil {
		r.more.waiters = map[handle.Waiter]struct{}{}
	}
	r.more.waiters[w] = struct{}{}
}

// OpenAs has a hold that stops the wall clock, or takes over one that does, opened by this attach to the session, which
// is as long known to live as that has not ended. The attempt is what a keeper counts.
func (r *Run) OpenAs(in *machine.Input, attempt func() int) {
	var left map[string]*record.Opener
	r.Locked(func() { left = r.Node.Openers(in.ID.Key) })
	if !in.Pauses && len(left) == 0 {
		return
	}
	in.By, in.Gone = r.Tree.opener(attempt), map[string]bool{}
	for opening, by := range left {
		in.Gone[opening] = procid.Gone(by, in.By)
	}
}

// opener names this attach to the session, from the first need on. It is nil where the session has ended.
func (t *Tree) opener(attempt func() int) (by *record.Opener) {
	s := t.session
	s.Locked(func() {
		if s.more != nil {
			by = s.more.opener
		}
	})
	if by != nil {
		return by
	}
	made := procid.Attach(attempt()) // reads files
	s.Locked(func() {
		if !s.over() && s.extras().opener == nil {
			s.more.opener, by, made = made, made, nil
		} else if s.more != nil {
			by = s.more.opener
		}
	})
	procid.Detach(made)
	return by
}

// Forget does not tell a waiter any more. The caller holds the lock.
func (r *Run) Forget(w handle.Waiter) {
	if r.more != nil {
		delete(r.more.waiters, w)
	}
}

// takeWaiters returns what tells those who wait for the end of a pause. The caller holds the lock.
func (r *Run) takeWaiters() (all []func()) {
	if r.more != nil {
		for w := range r.more.waiters {
			all = append(all, w.Released)
		}
		r.more.waiters = nil
	}
	return all
}

// Lock locks the tree of the run.
func (r *Run) Lock() { r.Tree.mu.Lock() }

// Unlock unlocks it.
func (r *Run) Unlock() { r.Tree.mu.Unlock() }

// Values is a context with the values of the run's, without its end.
func (r *Run) Values() context.Context { return context.WithoutCancel(r.inner) }

// Closed reports whether the host has closed the run, or one around it.
func (r *Run) Closed() bool {
	for ; r != nil; r = r.outer {
		if r.Record.Closed() {
			return true
		}
	}
	return false
}

// Locked makes the call while the lock is held.
func (r *Run) Locked(call func()) {
	r.Tree.mu.Lock()
	defer r.Tree.mu.Unlock()
	call()
}

// Outer is the run around a layer, nil for a session.
func (r *Run) Outer() *Run { return r.outer }

// Host is the run as its host has it.
func (r *Run) Host() Host { return r.host }

// Inner is the run's context as it ends.
func (r *Run) Inner() context.Context { return r.inner }

// Elapsed is what has elapsed of the window. The caller holds the lock.
func (r *Run) Elapsed() time.Duration { return r.Node.At(r.Tree.clock.elapsed()) }

// Now is this instant, for an event. The caller holds the lock.
func (r *Run) Now() machine.Now { return r.Tree.now(nil) }

// Since is what Now is since the base of the tree's clock, which is the machine's.
func (t *Tree) Since() time.Duration { return t.clock.base.Since() }

// SinceAt is Since for a reading that was made just now.
func (t *Tree) SinceAt(now time.Time) time.Duration { return now.Sub(t.clock.base.Time()) }

// Quiet reports, without a lock, that nothing can have happened since the last look. It only ever does on the machine's
// clock.
func (r *Run) Quiet() bool { return r.Node.MayBeQuiet() && r.Node.Quiet(r.Tree.clock.base.Since()) }

// Stop is the cause of the run's end once it has fired, nil before. The caller holds the lock.
func (r *Run) Stop() error {
	if !r.fired {
		return nil
	}
	return context.Cause(r.inner)
}

// Complete reports whether the run is complete. The caller holds the lock.
func (r *Run) Complete() bool { return r.complete }

func (r *Run) over() bool { return r.Node.Phase() == machine.Over }

// Over reports whether the run has ended. A trip that is being recorded can still be taken back.
func (r *Run) Over() (over bool) {
	r.Locked(func() { over = r.over() })
	return over
}

// Recorded returns a channel that is closed when the run's end, which is being recorded, is in the store or given up;
// nil if none is.
func (r *Run) Recorded() (done <-chan struct{}) {
	r.Locked(func() {
		if e := r.Record.Ending(); e != nil {
			done = e.Done
		}
	})
	return done
}

// RemainingAt is how long the run may still work, for who has just read the machine's clock.
func (r *Run) RemainingAt(now time.Time) time.Duration {
	r.Tree.mu.Lock()
	defer r.Tree.mu.Unlock()
	return r.Node.Remaining(r.Node.At(r.Tree.clock.elapsedAt(now)))
}

// Step takes an input of which nobody waits for what it asks for.
func (r *Run) Step(in *machine.Input) machine.Result {
	k := r.Tree.Step(r, in)
	k.doAside()
	return in.Result
}

// Poll looks at the run and carries out what it finds. It returns the cause of its stop once there is one.
func (r *Run) Poll() error { return r.Decide(&machine.Input{Kind: machine.Look}) }

// LookNow is Poll, unless nothing can have happened. It returns the time afterwards.
func (r *Run) LookNow() time.Time {
	t := r.Tree
	now := clocks.Now(t.Clock)
	if t.Clock == nil && r.Node.Quiet(t.SinceAt(now)) {
		return now
	}
	_ = r.Poll()
	return clocks.Now(t.Clock)
}

// Decide has an input decided on by a caller that waits: for the host, if that has to be asked before, for the record
// of the run's end, and for the host to be told of that; in all no longer than its docs say. It returns the cause of
// the run's stop once there is one.
func (r *Run) Decide(in *machine.Input) error {
	var began time.Time
	for first := true; ; first = false {
		in.Result = machine.Result{}
		k := r.Tree.Step(r, in)
		if k.Idle() { // nearly always
			return k.Stop
		}
		if first {
			began = k.At
		}
		if first && k.Ending == nil && !k.Records() {
			r.Retry(began)
		}
		k.Pass(r.Tree, began)
		if k.Stop != nil { // what the end left to do is for whoever ended the run
			return k.Stop
		}
		if !r.Wait(&k, began) || in.Done {
			r.TellSince(began)
			return nil
		}
	}
}

// Wait waits for the record of the run's end if a step has begun that, and reports whether it has.
func (r *Run) Wait(k *Work, began time.Time) bool {
	if k.Ending == nil {
		return false
	}
	<-k.Ending.Done
	r.Tree.Await(began, k.Ending.Told)
	return true
}

// Take takes an input again and again until it does not have to wait. The work is of the last step, and as old as the
// first.
func (r *Run) Take(in *machine.Input) (k Work) {
	first := r.Tree.Step(r, in)
	for k, began := first, first.At; ; k = r.Tree.Step(r, in) {
		if k.Pass(r.Tree, began); !in.Wait {
			k.At = first.At
			return k
		}
		r.Wait(&k, began)
		in.Result = machine.Result{}
	}
}

// TakeAside is Take for a caller that does not wait for what the input has begun.
func (r *Run) TakeAside(in *machine.Input) {
	k := r.Take(in)
	if k.behind && !k.Records() { // as at a poll
		r.Retry(clocks.Now(r.Tree.Clock))
	}
}

// Retry appends again, as a poll does, what is pending, unless that is being done. It holds up a poll only if there is
// no other goroutine, for what is left of its time-out since began.
func (r *Run) Retry(began time.Time) {
	if r.Record.WantAgain() {
		k := Work{record: []*lane.Recorder{&r.Record}}
		k.Pass(r.Tree, began) // the host is told by who found it
	}
}

// Want has what was put in line recorded. The caller holds the lock, and does the work once it is free.
func (r *Run) Want(k *Work) { k.recordOf(r) }

// Cause is why the run's context has ended, or is about to.
func (r *Run) Cause() error {
	if cause := context.Cause(r.inner); cause != nil {
		return cause
	}
	return context.Canceled
}

// End ends the run with the cause unless it has ended, and reports whether it did. What the host is to be told is left
// to the caller.
func (r *Run) End(cause error) bool {
	in := machine.Input{Kind: machine.End, Cause: cause}
	r.Take(&in)
	return in.Done
}

// Close is End for who does nothing else if the run has ended. It returns when it began, and whether nothing is left to
// do.
func (r *Run) Close(cause error) (began time.Time, nothing bool) {
	in := machine.Input{Kind: machine.End, Cause: cause}
	k := r.Take(&in)
	return k.At, k.Idle() && r.more == nil
}

// Adopt does what the store says, unless the run has ended meanwhile. The caller has waited since began. It reports
// whether the run goes on, or ended by that with a stop, and then returns its cause.
func (r *Run) Adopt(found *fold.Window, began time.Time) (stop error, adopted bool) { //nolint:revive // a cause
	defer r.TellSince(began)
	in := machine.Input{Kind: machine.Adopt, Window: found}
	k := r.Take(&in)
	return k.Stop, in.Done && !found.Complete()
}

func (r *Run) end(e *machine.Effect, k *Work) {
	cause := e.Cause
	switch {
	case e.Stop != nil:
		r.fired, cause = true, r.host.Stopped(e.Stop)
		r.newsOf().stopped = true
	case cause == nil:
		cause = r.outer.Cause()
	}
	r.byParent = e.ByParent
	r.complete = !e.ByParent && cause == machine.ErrComplete //nolint:errorlint // the machine's own
	r.cancel(cause)
	if r.endDependents(k, cause); r.outer == nil {
		r.Tree.disarm(k)
		if r.more != nil {
			procid.Detach(r.more.opener)
		}
	}
}
