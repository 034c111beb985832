package watchdog

import (
	"iter"
	"slices"
	"sync"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/hostcall"
	"github.com/seed62658d38/watchdog/internal/machine"
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
	entry     *machine.Entry
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
	r := w.r.readersOf()
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
	r := &w.r
	if !r.quiet() {
		began := clocks.Now(r.tree.Clock)
		if r.poll() != nil {
			r.readersOf()
			r.wake(r.enqueueStop()) // nobody was there to take it, or it was stored before this attach
		} else if !r.tree.Inline {
			r.tree.Await(began, r.record.Underway()) // the record of a directive that this look found
		}
	}
	return r.takePolled()
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
			if d, ok := w.r.nextPending(); !ok || !yield(d) {
				return
			}
		}
	}
}

func (r *run) nextPending() (Directive, bool) {
	stopped := false
	r.locked(func() { stopped = r.stop != nil })
	if stopped {
		r.readersOf()
		if asleep := r.enqueueStop(); len(asleep) > 0 {
			_ = hostcall.Aside(func() { r.wake(asleep) })
		}
	}
	return r.takePolled()
}

// takePolled is the next directive in the box for polls.
func (r *run) takePolled() (Directive, bool) {
	from := r.readers.Load()
	if from == nil {
		return Directive{}, false
	}
	from.mu.Lock()
	d, ok := from.poll.take()
	from.mu.Unlock()
	if ok {
		r.delivered(&d)
	}
	return d, ok
}

func (r *run) readersOf() *readers {
	if all := r.readers.Load(); all != nil {
		return all
	}
	r.readers.CompareAndSwap(nil, &readers{})
	return r.readers.Load()
}

// line puts a directive in line for its readers. The caller holds mu of the tree.
func (r *run) line(e *machine.Entry) {
	to := r.readersOf()
	to.mu.Lock()
	defer to.mu.Unlock()
	to.outbox = append(to.outbox, &outgoing{directive: *r.directiveOf(e.Notice), entry: e})
}

// lined is the directive of an entry that was put in line in the same step: hosts compare what ended their work with
// what they poll. The caller holds mu of the tree.
func (r *run) lined(e *machine.Entry) *Directive {
	from := r.readersOf()
	from.mu.Lock()
	defer from.mu.Unlock()
	for _, next := range slices.Backward(from.outbox) {
		if next.entry == e {
			d := next.directive
			return &d
		}
	}
	return r.directiveOf(e.Notice)
}

// letGo puts directives whose record was tried where everyone finds them, but for those behind one that is still
// being recorded. It returns the subscribers that have to be woken.
func (r *run) letGo(tried *machine.Entry) (asleep []*subscriber) {
	to := r.readersOf()
	to.mu.Lock()
	defer to.mu.Unlock()
	for _, d := range to.outbox {
		d.tried = d.tried || d.entry == tried
	}
	for len(to.outbox) > 0 && to.outbox[0].tried {
		asleep = append(asleep, to.putNext()...)
	}
	return asleep
}

// enqueueStop does so with the cancel of a run that was stopped, once, after everything that is still in line; where
// there are no readers the first one finds it.
func (r *run) enqueueStop() (asleep []*subscriber) {
	to := r.readers.Load()
	if to == nil {
		return nil
	}
	to.mu.Lock()
	defer to.mu.Unlock()
	if to.stopped {
		return nil
	}
	to.stopped = true
	for len(to.outbox) > 0 {
		asleep = append(asleep, to.putNext()...)
	}
	return append(asleep, to.put(r.stop.directive())...)
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
