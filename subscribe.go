package watchdog

import (
	"iter"

	"github.com/seed62658d38/watchdog/internal/clocks"
)

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
		r.delivered(&d)
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
		r.delivered(&d)
	}
	return d, ok
}
