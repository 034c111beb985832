package watchdog

import (
	"fmt"
	"iter"
	"runtime/debug"
	"slices"
	"sync"
	"time"
)

// maxQueued is how many directives wait for a reader that does not come. The oldest is dropped, and counted in the
// next.
const maxQueued = 16

// A mailbox holds the directives that one reader has not read. Its owner guards it.
type mailbox struct {
	queue   []Directive
	dropped int
}

func (m *mailbox) put(d Directive) {
	if len(m.queue) == maxQueued {
		m.queue = slices.Delete(m.queue, 0, 1)
		m.dropped++
	}
	m.queue = append(m.queue, d)
}

func (m *mailbox) take() (d Directive, ok bool) {
	if len(m.queue) == 0 {
		return d, false
	}
	d, m.queue = m.queue[0], m.queue[1:]
	d.Dropped, m.dropped = m.dropped, 0
	return d, true
}

// readers are what is known of the readers of a run's directives. It is made at the first directive or subscriber.
type readers struct {
	mu          sync.Mutex
	outbox      []*outgoing // what was decided and nobody was told yet, oldest first
	poll        mailbox
	stopped     bool // the cancel was put where everyone finds it
	subscribers []*subscriber
}

// An outgoing directive is told when its record was tried, after all that were decided before it; or when the run has
// its stop, which waits for nothing and is the last that is told.
type outgoing struct {
	directive Directive
	tried     bool
}

// A subscriber gets directives one after the other, on a goroutine that lives while there are any for it: one that
// blocks holds up only itself.
type subscriber struct {
	call    func(Directive)
	box     mailbox
	calling bool
	gone    bool
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
	r := w.readersOf()
	s := &subscriber{call: call}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.subscribers = append(r.subscribers, s)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		s.gone = true
		r.subscribers = slices.DeleteFunc(r.subscribers, func(other *subscriber) bool { return other == s })
	}
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
	if !w.quiet() {
		if w.poll() != nil {
			w.readersOf()
			w.wake(w.enqueueStop()) // nobody was there to take it, or it was stored before this attach
		} else {
			w.recorder.await() // for the record of a directive that this look found
		}
	}
	return w.takePolled()
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
			if d, ok := w.nextPending(); !ok || !yield(d) {
				return
			}
		}
	}
}

func (w *Watchdog) nextPending() (Directive, bool) {
	w.mu.Lock()
	stopped := w.stop != nil
	w.mu.Unlock()
	if stopped {
		w.readersOf()
		if asleep := w.enqueueStop(); len(asleep) > 0 {
			_ = aside(func() { w.wake(asleep) })
		}
	}
	return w.takePolled()
}

// takePolled is the next directive in the box for polls.
func (w *Watchdog) takePolled() (Directive, bool) {
	r := w.readers.Load()
	if r == nil {
		return Directive{}, false
	}
	r.mu.Lock()
	d, ok := r.poll.take()
	r.mu.Unlock()
	if ok {
		w.delivered(&d)
	}
	return d, ok
}

func (w *Watchdog) readersOf() *readers {
	if r := w.readers.Load(); r != nil {
		return r
	}
	w.readers.CompareAndSwap(nil, &readers{})
	return w.readers.Load()
}

// line puts a directive in line for its readers.
func (w *Watchdog) line(d Directive) *outgoing {
	r := w.readersOf()
	r.mu.Lock()
	defer r.mu.Unlock()
	next := &outgoing{directive: d}
	r.outbox = append(r.outbox, next)
	return next
}

// enqueue puts directives whose record was tried where everyone finds them, but for those behind one that is still
// being recorded. It returns the subscribers that have to be woken.
func (w *Watchdog) enqueue(directives []*outgoing) (asleep []*subscriber) {
	if len(directives) == 0 {
		return nil
	}
	r := w.readersOf()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range directives {
		d.tried = true
	}
	for len(r.outbox) > 0 && r.outbox[0].tried {
		asleep = append(asleep, r.putNext()...)
	}
	return asleep
}

// enqueueStop does so with the cancel of a run that was stopped, once, after everything that is still in line; where
// there are no readers the first one finds it.
func (w *Watchdog) enqueueStop() (asleep []*subscriber) {
	r := w.readers.Load()
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return nil
	}
	r.stopped = true
	for len(r.outbox) > 0 {
		asleep = append(asleep, r.putNext()...)
	}
	return append(asleep, r.put(w.stop.directive())...)
}

// putNext puts the next in line where everyone finds it. The caller holds mu.
func (r *readers) putNext() (asleep []*subscriber) {
	d := r.outbox[0].directive
	r.outbox = r.outbox[1:]
	return r.put(d)
}

// put fills every mailbox. The caller holds mu.
func (r *readers) put(d Directive) (asleep []*subscriber) {
	r.poll.put(d)
	for _, s := range r.subscribers {
		s.box.put(d)
		if !s.calling {
			s.calling = true
			asleep = append(asleep, s)
		}
	}
	return asleep
}

// wake calls the subscribers: with PollOnly on this goroutine, else each on one of its own.
func (w *Watchdog) wake(asleep []*subscriber) {
	each(asleep, func(s *subscriber) {
		if w.pollOnly {
			w.drain(w.readersOf(), s)
			return
		}
		go w.drain(w.readersOf(), s)
	})
}

// each makes the call for every element, also if one of them ends this goroutine.
func each[T any](all []T, call func(T)) {
	if len(all) == 0 {
		return
	}
	defer each(all[1:], call)
	call(all[0])
}

// drain calls the subscriber until it has every directive that there is for it. If a call ends this goroutine, another
// takes over, or with PollOnly this one before it ends.
func (w *Watchdog) drain(r *readers, s *subscriber) {
	drained := false
	defer func() {
		if !drained {
			w.wake([]*subscriber{s})
		}
	}()
	for {
		r.mu.Lock()
		d, ok := s.box.take()
		if !ok || s.gone {
			s.calling, drained = false, true
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		w.delivered(&d)
		w.callHost("Subscribe", func() { s.call(d) })
	}
}

// callHost calls the host, whose panic must not end the process from a goroutine of the watchdog's. The log gets the
// type of the value and where it happened: what the value says may be a secret.
func (w *Watchdog) callHost(onPanic string, call func()) {
	defer func() {
		if p := recover(); p != nil {
			stack := string(debug.Stack())
			callLog(func() {
				w.log().Error("the host panicked in a call of the watchdog", "run", w.id, "in", onPanic,
					"panic_type", fmt.Sprintf("%T", p), "stack", stack)
			})
		}
	}()
	call()
}

// callLog calls the host's log. If that panics there is nobody to tell, and the process must not end for it.
func callLog(log func()) {
	defer func() { _ = recover() }()
	log()
}

// deliver records what a look found, but for a trip, on another goroutine, and then tells the host.
func (w *Watchdog) deliver(found *findings) {
	if len(found.entries) == 0 {
		return
	}
	n := &news{warnings: found.warnings}
	w.recorder.background(func() {
		defer func() {
			n.recorded(w, found)
			w.wake(n.takeAsleep())
		}()
		w.recorder.appendPending(w.storeContext(), w.recorder.timeout)
	}, func() { w.tellHost(n) })
}

// news are what the host is to be told when all that somebody may wait for is done: each call of its code may block, or
// call the watchdog.
type news struct {
	asleep   []*subscriber
	warnings []Warning
	logs     []func()
	stop     *Stop
	stopErr  error // why the stop is not recorded
}

// recorded adds what is to be told of findings whose record was tried.
func (n *news) recorded(w *Watchdog, found *findings) {
	n.asleep = append(n.asleep, w.enqueue(found.directives)...)
	n.logs = append(n.logs, w.recorder.failures(found.entries)...)
}

func (n *news) takeAsleep() []*subscriber {
	asleep := n.asleep
	n.asleep = nil
	return asleep
}

// tellHost tells the host on this goroutine, everything also if a part of it ends the goroutine. The caller holds no
// lock, and nobody waits for it but, with PollOnly, the host itself.
func (w *Watchdog) tellHost(n *news) {
	defer func() {
		if n.stop != nil {
			callLog(func() { w.report(n.stop, n.stopErr) })
		}
	}()
	defer each(n.logs, callLog)
	defer w.tell(n.warnings)
	defer w.deliverTrace()
	w.wake(n.takeAsleep())
}

// tellSince tells the host. The caller, who has waited since began, waits for it no longer than the timeout in all,
// unless there is no other goroutine.
func (w *Watchdog) tellSince(began time.Time, n *news) { w.recorder.awaitSince(began, w.tellAside(n)) }

// tellTrace is tellAside for a run that the host has ended itself.
func (w *Watchdog) tellTrace() (told <-chan struct{}) {
	if !w.trace.waiting() {
		return nil
	}
	return w.tellAside(&news{})
}

// tellAside tells the host on another goroutine, unless there is none. It returns a channel that is closed when that is
// done, nil if it is.
func (w *Watchdog) tellAside(n *news) (told <-chan struct{}) {
	switch {
	case w.pollOnly:
		w.tellHost(n)
	case n.stop != nil || len(n.asleep) > 0 || w.trace.waiting():
		return aside(func() { w.tellHost(n) })
	}
	return nil
}

// aside makes a call that may block, or end its goroutine, on another one. It returns a channel that is closed when the
// call has ended.
func aside(call func()) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		call()
	}()
	return done
}
