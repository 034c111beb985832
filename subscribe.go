package watchdog

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
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
	poll        mailbox
	stopped     bool // the cancel was put where everyone finds it
	subscribers []*subscriber
}

// A subscriber gets directives one after the other, on a goroutine that lives while there are any for it: one that
// blocks holds up only itself.
type subscriber struct {
	call    func(Directive)
	box     mailbox
	calling bool
	gone    bool
}

// Subscribe has every later directive given to call, in order, on a goroutine of its own that ends when there is none
// left; with PollOnly on the caller's of whatever method found it. A subscriber that blocks or panics harms neither the
// watchdog nor the others: up to 16 directives wait for it, then the oldest is dropped and counted in
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
// is dropped and counted in [Directive].Dropped. It is [Watchdog.Fired] besides, and costs the same.
// On a nil Watchdog there are no directives.
func (w *Watchdog) Poll() (Directive, bool) {
	if w == nil {
		return Directive{}, false
	}
	if !w.quiet() {
		if w.poll() != nil {
			w.readersOf()
			w.wake(w.enqueueStop()) // nobody was there to take it, or it was stored before this attach
		}
		w.recorder.await() // for the record of a directive that this look found
	}
	r := w.readers.Load()
	if r == nil {
		return Directive{}, false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.poll.take()
}

func (w *Watchdog) readersOf() *readers {
	if r := w.readers.Load(); r != nil {
		return r
	}
	w.readers.CompareAndSwap(nil, &readers{})
	return w.readers.Load()
}

// publish gives a directive to everyone.
func (w *Watchdog) publish(d Directive) { w.wake(w.enqueue(d)) }

// enqueue puts a directive where everyone finds it, and returns the subscribers that have to be woken.
func (w *Watchdog) enqueue(d Directive) (asleep []*subscriber) {
	r := w.readersOf()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.put(d)
}

// enqueueStop does so with the cancel of a run that was stopped, once; where there are no readers the first one finds
// it.
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
	return r.put(w.stop.directive())
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
		w.callHost("Subscribe", func() { s.call(d) })
	}
}

// callHost calls the host, whose panic must not end the process from a goroutine of the watchdog's. The log gets the
// type of the value and where it happened: what the value says may be a secret.
func (w *Watchdog) callHost(onPanic string, call func()) {
	defer func() {
		if p := recover(); p != nil {
			w.log().Error("the host panicked in a call of the watchdog", "run", w.id, "in", onPanic,
				"panic_type", fmt.Sprintf("%T", p), "stack", string(debug.Stack()))
		}
	}()
	call()
}

// deliver records what a look found, but for a trip, and then tells the host.
func (w *Watchdog) deliver(found findings) {
	if len(found.warnings) == 0 && len(found.directives) == 0 {
		return
	}
	var failures []func() // to log when Close need not wait for it: the log may be what calls Close
	record := func() {
		failures = w.recordWarnings(found.warnings)
		each(found.directives, func(d Directive) {
			failures = append(failures, w.recordDirective(d)...)
			w.publish(d)
		})
	}
	after := func() {
		defer w.tell(found.warnings)
		each(failures, func(log func()) { log() })
	}
	if w.pollOnly {
		defer after()
		record()
		return
	}
	w.recorder.background(record, after)
}
