package watchdog

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/digest"
	"github.com/seed62658d38/watchdog/internal/driver"
	"github.com/seed62658d38/watchdog/internal/feed"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/machine"
)

// A Watchdog guards one run in this process. It ends the run's context when a limit is exceeded, also while the host is
// stuck, records why, and tells the host at its next poll. Make one with [New] or [Resume] and end it with
// [Watchdog.Close]. While armed it is one entry in a timer's list and no goroutine.
//
// All methods are safe for concurrent use. All work on a nil Watchdog, which [FromContext] returns where there is no
// run: it has no limit, it never fires, and what cannot be done without a run returns an error that wraps [ErrEnded].
type Watchdog struct{ r run }

// A run is a run of package driver in the words of this package. The lock guards what changes and is not atomic.
type run struct {
	driver.Run
	settings

	digests digest.Memory
	readers atomic.Pointer[readers]
	account atomic.Pointer[account] // nil while nothing is counted

	more *extras // nil if there is nothing in them
}

// readers are those of a run's directives, each of which is in line under its entry until the record of that was tried.
type readers = feed.Feed[*machine.Entry, Directive]

// extras are what few runs have.
type extras struct {
	attempt Attempt
	keeper  func(context.Context) // tells the keeper of the end, nil if there is none
	// resumeInDoubt tells that it was not resumed, and that the store may have the resume all the same.
	resumeInDoubt bool
}

// settings are what a watchdog keeps of its config. They do not change.
type settings struct {
	limits    *sharedLimits
	logger    *slog.Logger
	onWarning func(Warning)
	classes   *classes // of the host's events
	forgets   bool     // nobody finds the run again
}

func (s *settings) log() *slog.Logger {
	if s.logger == nil {
		return slog.Default()
	}
	return s.logger
}

// extras are made at the first need. The caller holds the lock.
func (r *run) extras() *extras {
	if r.more == nil {
		r.more = &extras{}
	}
	return r.more
}

// around is the run around a layer, nil for a session.
func (r *run) around() *run {
	outer := r.Outer()
	if outer == nil {
		return nil
	}
	return outer.Host().(*run)
}

// ended reports whether the run has ended, also by its parent just now.
func (r *run) ended() bool {
	r.CheckParent()
	return r.Inner().Err() != nil
}

// poll looks at the run and carries out what it finds. It returns the stop once there is one.
func (r *run) poll() *Stop { return asStop(r.Poll()) }

func asStop(cause error) *Stop {
	stop, _ := cause.(*Stop) //nolint:errorlint // as [run.Stopped] returned it
	return stop
}

// adopt does what the store says, unless the run has ended meanwhile. The caller has waited since began.
func (r *run) adopt(found *fold.Window, began time.Time) (*Stop, error) {
	stop, adopted := r.Adopt(found, began)
	if !adopted {
		return r.howEnded()
	}
	return asStop(stop), nil
}

// stopped is the run's stop once it has fired, nil before.
func (r *run) stopped() (stop *Stop) {
	r.Locked(func() { stop = asStop(r.Stop()) })
	return stop
}

// howEnded is the stop of a run that has ended, or an error that says how it ended.
func (r *run) howEnded() (stop *Stop, err error) {
	if stop = r.stopped(); stop == nil {
		err = r.errEnded()
	}
	return stop, err
}

func (r *run) errEnded() error { return fmt.Errorf("%w: %w", ErrEnded, r.Cause()) }

// ID returns the run's ID, a random one where the host gave none. It is empty for a nil Watchdog.
func (w *Watchdog) ID() string {
	if w == nil {
		return ""
	}
	return w.r.Node.Run
}

// Parent returns the ID of the run that this one is a layer of, empty for a run of its own and a nil Watchdog.
func (w *Watchdog) Parent() string {
	if w == nil {
		return ""
	}
	return w.r.Node.Parent
}

// StartedAt returns the start of the window, in UTC to the microsecond. After [Resume] it can be later than what the
// host passed: persist it. It is zero for a nil Watchdog.
func (w *Watchdog) StartedAt() time.Time {
	if w == nil {
		return time.Time{}
	}
	return w.r.Node.StartedAt
}

// Fired reports whether a limit or another guard stopped the run, and which: the host asks at its phase boundaries. It
// reads the clock, so that it is right also without a timer (see [Config].PollOnly). While a stop is being recorded it
// waits for that, at most the record timeout, and it tries again to record what could not be. A run that ended in
// another way has not fired, nor has a nil Watchdog. A run that has not fired costs little more than reading the clock,
// and no allocation.
func (w *Watchdog) Fired() (StopReason, bool) {
	if w == nil || w.r.Quiet() {
		return "", false
	}
	if stop := w.r.poll(); stop != nil {
		return stop.Code, true
	}
	return "", false
}

// Stop returns the run's stop, nil while it has not fired. It looks as [Watchdog.Fired] does. A nil Watchdog has none.
func (w *Watchdog) Stop() *Stop {
	if w == nil || w.r.Quiet() {
		return nil
	}
	return w.r.poll()
}

// Elapsed returns the real time since the window's start, with the time that the process was not running, the machine
// slept and holds stopped the wall clock. It never runs back. It is 0 for a nil Watchdog.
func (w *Watchdog) Elapsed() time.Duration {
	if w == nil {
		return 0
	}
	w.r.Lock()
	defer w.r.Unlock()
	return w.r.Elapsed()
}

// Remaining returns how long the run may still work: what is left of its wall clock, until the [DirectiveWrapUp] less
// the reserve, at least 0, and 0 once it has ended. Without a wall-clock limit, and for a nil Watchdog, it is
// [NoLimit].
func (w *Watchdog) Remaining() time.Duration {
	if w == nil {
		return NoLimit
	}
	return w.r.RemainingAt(time.Now())
}

func (r *run) readersOf() *readers {
	if all := r.readers.Load(); all != nil {
		return all
	}
	r.readers.CompareAndSwap(nil, &readers{})
	return r.readers.Load()
}

// Subscribe has every later directive given to call, in the order in which they were decided and the [DirectiveCancel]
// of a stop last, on a goroutine of its own that ends when there is none left; with PollOnly on the caller's of
// whatever method found it. A subscriber that blocks or panics harms neither the watchdog nor the others: up to 16
// directives wait for it, then the oldest is dropped and counted in
// [Directive].Dropped; a panic is logged and the next directive comes all the same. The returned function ends the
// subscription and does not wait for a call that is under way. On a nil Watchdog there are no directives.
func (w *Watchdog) Subscribe(call func(Directive)) (unsubscribe func()) {
	if w == nil {
		return func() {}
	}
	r := &w.r
	return r.readersOf().Subscribe(func(d Directive, dropped int) {
		d.Dropped = dropped
		r.CallHost("Subscribe", func() { call(d) })
	})
}

// Poll looks at the run and returns the oldest directive that was not polled yet: the host asks at its phase
// boundaries, until there is none. After a stop the last one is the [DirectiveCancel]. Up to 16 wait; then the oldest
// is dropped and counted in [Directive].Dropped. It is [Watchdog.Fired] besides, costs the same and waits no longer:
// for the record of a directive that it found, at most the record timeout. A directive whose record takes longer comes
// with a later poll. On a nil Watchdog there are no directives.
func (w *Watchdog) Poll() (Directive, bool) {
	if w == nil {
		return Directive{}, false
	}
	r := &w.r
	var stop *Stop
	if !r.Quiet() {
		began := clocks.Now(r.Tree.Clock)
		if stop = r.poll(); stop == nil && !r.Tree.Inline {
			r.Tree.Await(began, r.Record.Underway()) // the record of a directive that this look found
		}
	}
	return r.takePolled(stop, r.Tree.Inline)
}

// Pending yields the directives that were not polled yet, oldest first, each once, as [Watchdog.Poll] does, and never
// waits: it asks no store, and without a timer ([Config].PollOnly) it does not look at the limits either. What comes
// while the loop runs is yielded, too. On a nil Watchdog there is none.
func (w *Watchdog) Pending() iter.Seq[Directive] {
	return func(yield func(Directive) bool) {
		if w == nil {
			return
		}
		for {
			if d, ok := w.r.takePolled(w.r.stopped(), false); !ok || !yield(d) {
				return
			}
		}
	}
}

// takePolled is the next directive for polls. That of a stop may be in no line yet: nobody was there to take it, or it
// was stored before this attach. Then the subscribers are called here, or each on a goroutine of its own.
func (r *run) takePolled(stop *Stop, here bool) (Directive, bool) {
	if stop != nil {
		if all := r.readersOf(); all.End(stop.directive()) {
			all.Deliver(here)
		}
	}
	d, dropped, ok := r.readers.Load().Poll()
	if ok {
		d.Dropped = dropped
	}
	return d, ok
}
