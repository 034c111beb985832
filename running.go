package watchdog

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/handle"
	"github.com/seed62658d38/watchdog/internal/machine"
)

// A run is one run of a tree as its driver has it. The tree's mu guards what changes and is not atomic.
type run struct {
	node  machine.Node
	tree  *tree
	outer *run // the run around a layer
	settings

	digests atomic.Pointer[digests]
	readers atomic.Pointer[readers]
	account atomic.Pointer[account] // nil while nothing is counted

	inner  context.Context
	cancel context.CancelCauseFunc
	ended
	storing

	asking *asking // while the host is asked whether it is busy
	tries  *try    // the first of those that are open
	holds  *Hold   // the first of those that end with a context, too
	news   *news   // what the host is still to be told; nil for nothing
	more   *extras // nil if there is nothing in them
}

// ended is how a run has ended.
type ended struct {
	stop     *Stop // once fired
	complete bool
	byParent bool // the parent ended it
}

// extras are what few runs have.
type extras struct {
	attempt Attempt
	keeper  func(context.Context) // tells the keeper of the end, nil if there is none
	failed  failedCompletes
	looper  *looper                    // nil before the first step
	waiters map[handle.Waiter]struct{} // for the end of a pause
	late    bool                       // the log was told that Busy does not answer
	// resumeInDoubt tells that it was not resumed, and that the store may have the resume all the same.
	resumeInDoubt bool
}

// extras are made at the first need. The caller holds mu.
func (r *run) extras() *extras {
	if r.more == nil {
		r.more = &extras{}
	}
	return r.more
}

// takeReleased tells those who wait for the end of a pause. The caller holds mu.
func (r *run) takeReleased() (all []func()) {
	if r.more != nil {
		for w := range r.more.waiters {
			all = append(all, w.Released)
		}
		r.more.waiters = nil
	}
	return all
}

// locked makes the call while the lock of the tree is held.
func (r *run) locked(call func()) {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	call()
}

// elapsed is what has elapsed of the window. The caller holds mu.
func (r *run) elapsed() time.Duration { return r.node.At(r.tree.clock.elapsed()) }

// now is this instant, for an event. The caller holds mu.
func (r *run) now() machine.Now { return r.tree.now(nil) }

// quiet reports, without a lock, that nothing can have happened since the last look. It only ever does on the machine's
// clock.
func (r *run) quiet() bool { return r.node.MayBeQuiet() && r.node.Quiet(r.tree.clock.base.Since()) }

// step takes an input of which nobody waits for what it asks for.
func (r *run) step(in *machine.Input) machine.Result {
	k := r.tree.step(r, in)
	k.doAside(r.tree)
	return in.Result
}

// lookAgain has the timer look at the run after the host was asked. With PollOnly the next poll does.
func (r *run) lookAgain() {
	if !r.tree.inline {
		r.step(&machine.Input{Kind: machine.Look})
	}
}

// poll looks at the run and carries out what it finds. It returns the stop once there is one.
func (r *run) poll() *Stop { return r.decide(&machine.Input{Kind: machine.Look}) }

// decide has an input decided on by a caller that waits: for the host, if that has to be asked before, for the record
// of the run's end, and for the host to be told of that; in all no longer than its docs say. It returns the stop once
// there is one.
func (r *run) decide(in *machine.Input) *Stop {
	began := clocks.Now(r.tree.clock.other)
	for first := true; ; first = false {
		in.Result = machine.Result{}
		k := r.tree.step(r, in)
		if k.idle() { // nearly always
			return k.stop
		}
		if first && k.ending == nil && len(k.runs) == 0 {
			r.retry(began)
			r.tree.session[0].account.Load().own().coverAside()
		}
		k.pass(r.tree, began)
		if k.stop != nil { // what the end left to do is for whoever ended the run
			return k.stop
		}
		if !r.await(&k, &began) || in.Done {
			r.tellSince(began)
			return nil
		}
	}
}

// await waits for what a step has begun and reports whether there was anything: for answers of the host's, or for the
// record of the run's end. The time that the host takes is its own: a slow answer is no reason to end the run before
// its stop is recorded.
func (r *run) await(k *work, began *time.Time) bool {
	for _, one := range k.asks {
		one.ask(func() {})
		<-one.done
	}
	switch {
	case len(k.asks) > 0:
		*began = clocks.Now(r.tree.clock.other)
	case k.ending == nil:
		return false
	default:
		<-k.ending.done
		r.tree.awaitSince(*began, k.ending.told)
	}
	return true
}

// take takes an input again and again until it does not have to wait.
func (r *run) take(in *machine.Input) (k work) {
	began := clocks.Now(r.tree.clock.other)
	for {
		in.Result = machine.Result{}
		k = r.tree.step(r, in)
		k.pass(r.tree, began)
		if !in.Wait {
			return k
		}
		r.await(&k, &began)
	}
}

// cause is why the run's context has ended, or is about to.
func (r *run) cause() error {
	if cause := context.Cause(r.inner); cause != nil {
		return cause
	}
	return context.Canceled
}

// endRunning ends the run with the cause unless it has ended, and reports whether it did. What the host is to be told
// is left to the caller.
func (r *run) endRunning(cause error) bool {
	in := machine.Input{Kind: machine.End, Cause: cause}
	r.take(&in)
	return in.Done
}

// conclude makes what the store knows of the window what every reader sees, at once. What the host is to be told is
// left to the caller: whoever waits for the end must not wait for the host.
func (r *run) conclude(e *ending, known *fold.Window, err error) {
	t := r.tree
	parent := t.parentEnd()
	var k work
	r.locked(func() {
		defer close(e.done)
		t.stepAt(&k, t.now(parent), r, &machine.Input{Kind: machine.Recorded, Trip: e.trip, Window: known})
		r.ending = nil
		n := r.newsOf()
		n.told, n.stopErr = e.told, err
	})
	k.pass(t, clocks.Now(t.clock.other))
}

// adopt does what the store says, unless the run has ended meanwhile. The caller has waited since began.
func (r *run) adopt(found *fold.Window, began time.Time) (*Stop, error) {
	defer r.tellSince(began)
	in := machine.Input{Kind: machine.Adopt, Window: found}
	k := r.take(&in)
	if !in.Done || found.Complete() {
		return r.howEnded()
	}
	return k.stop, nil
}

// howEnded is the stop of a run that has ended, or an error that says how it ended.
func (r *run) howEnded() (stop *Stop, err error) {
	r.locked(func() { stop = r.stop })
	if stop == nil {
		err = fmt.Errorf("%w: %w", ErrEnded, r.cause())
	}
	return stop, err
}

// hasEnded reports whether the run is over. A trip that is being recorded can still be taken back.
func (r *run) hasEnded() (over bool) {
	r.locked(func() { over = r.node.Phase() == machine.Over })
	return over
}

// remainingAt is how long the run may still work, for who has just read the machine's clock.
func (r *run) remainingAt(now time.Time) time.Duration {
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	return r.node.Remaining(r.node.At(r.tree.clock.elapsedAt(now)))
}

// remembers reports whether somebody has to be told that the run has ended, or something of it to be settled.
func (r *run) remembers() bool { return r.more != nil || r.account.Load() != nil }

// close does what is left to do for a run that has ended by it, or before.
func (r *run) close(began time.Time) (err error) {
	t, told := r.tree, r.tellAside()
	spending := clocks.Now(t.clock.other)
	spent := r.account.Load().close()
	defer func() {
		t.awaitSince(spending, spent)
		err = errors.Join(err, r.account.Load().own().unpaid())
	}()
	t.awaitSince(began, r.underway())
	defer r.tellKeeper(began)
	if r.waiting() {
		if err := r.flush(); err != nil {
			return err
		}
	}
	r.closeSteps(t.left(began))
	t.awaitSince(began, told)
	return nil
}
