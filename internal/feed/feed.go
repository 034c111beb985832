// Package feed gives what was decided to those of the host's who read it: everything to everyone, in the order in which
// it was decided, each at its own pace. A reader that blocks, panics or ends its goroutine holds up only itself.
//
// It does not know what it gives, starts no goroutine but those that call readers, and keeps nothing for readers that
// come later, but for those who poll.
package feed

import (
	"slices"
	"sync"

	"github.com/seed62658d38/watchdog/internal/bounded"
)

// maxWaiting is how many items wait for a reader that does not come. The oldest is dropped, and counted in the next.
const maxWaiting = 16

// A Feed has the readers of a run. An item is put in line under a key when it is decided on, and given to the readers
// when what the key stands for was tried, after all that were decided before it. The zero value is ready to use, and it
// is safe for concurrent use. A nil one is empty.
type Feed[K comparable, T any] struct {
	mu          sync.Mutex
	line        []lined[K, T] // oldest first
	polls       box[T]
	subscribers []*queue[T]
	ended       bool
}

type lined[K comparable, T any] struct {
	key   K
	item  T
	tried bool
}

// Line puts an item in line.
func (f *Feed[K, T]) Line(key K, item T) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.line = append(f.line, lined[K, T]{key: key, item: item})
}

// Lined returns the item that is in line under the key.
func (f *Feed[K, T]) Lined(key K) (item T, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.find(key); i >= 0 {
		return f.line[i].item, true
	}
	return item, false
}

func (f *Feed[K, T]) find(key K) int {
	return slices.IndexFunc(f.line, func(l lined[K, T]) bool { return l.key == key })
}

// Tried has the item under the key given to the readers, once those before it are.
func (f *Feed[K, T]) Tried(key K) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if i := f.find(key); i >= 0 {
		f.line[i].tried = true
	}
	for len(f.line) > 0 && f.line[0].tried {
		f.giveNext()
	}
}

// End has everything that is in line given to the readers, and then the last item. It waits for nothing. It reports
// whether it was the first that did: the others change nothing.
func (f *Feed[K, T]) End(last T) (first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return false
	}
	f.ended = true
	for len(f.line) > 0 {
		f.giveNext()
	}
	f.give(last)
	return true
}

func (f *Feed[K, T]) giveNext() {
	item := f.line[0].item
	f.line = f.line[1:]
	f.give(item)
}

func (f *Feed[K, T]) give(item T) {
	f.polls.put(item)
	for _, s := range f.subscribers {
		s.add(item)
	}
}

// Poll takes the oldest item that was not polled, and how many were dropped before it.
func (f *Feed[K, T]) Poll() (item T, dropped int, ok bool) {
	if f == nil {
		return item, 0, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.polls.take()
}

// Subscribe has every item from now on given to tell, in order and one at a time, with the number of those that were
// dropped before it, until the returned function is called.
func (f *Feed[K, T]) Subscribe(tell func(item T, dropped int)) (unsubscribe func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := &queue[T]{tell: tell}
	f.subscribers = append(f.subscribers, s)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		s.clear()
		f.subscribers = slices.DeleteFunc(f.subscribers, func(other *queue[T]) bool { return other == s })
	}
}

// Deliver calls the subscribers that something waits for: here, one after the other, or each on a goroutine of its own.
func (f *Feed[K, T]) Deliver(here bool) {
	if f == nil {
		return
	}
	f.mu.Lock()
	waiting := slices.DeleteFunc(slices.Clone(f.subscribers), func(s *queue[T]) bool { return !s.waiting() })
	f.mu.Unlock()
	bounded.Each(waiting, func(s *queue[T]) {
		if here {
			s.deliverAll()
		} else {
			go s.deliverAll()
		}
	})
}

// A box has what one receiver has not taken. Its owner guards it.
type box[T any] struct {
	items   []T
	dropped int
}

func (b *box[T]) put(item T) {
	if len(b.items) == maxWaiting {
		b.items = slices.Delete(b.items, 0, 1)
		b.dropped++
	}
	b.items = append(b.items, item)
}

// take returns the oldest item, and how many were dropped before it.
func (b *box[T]) take() (item T, dropped int, ok bool) {
	if len(b.items) == 0 {
		return item, 0, false
	}
	item, b.items = b.items[0], b.items[1:]
	dropped, b.dropped = b.dropped, 0
	return item, dropped, true
}

// A queue gives items to one receiver, in order and one at a time, on the goroutine of whoever delivers. It is safe for
// concurrent use.
type queue[T any] struct {
	tell func(item T, dropped int) // may block, or end its goroutine, and must not panic

	mu         sync.Mutex
	box        box[T]
	delivering bool
}

// add puts an item into the queue. It calls nobody.
func (q *queue[T]) add(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.box.put(item)
}

// waiting reports whether somebody has to deliver: there is something, and nobody is at it.
func (q *queue[T]) waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.box.items) > 0 && !q.delivering
}

// deliverAll gives the receiver all that is queued, unless somebody else is at it: that one takes the newer items, too.
// If the receiver ends this goroutine, the others are delivered before it ends.
func (q *queue[T]) deliverAll() {
	for item, dropped, ok := q.take(); ok; item, dropped, ok = q.take() {
		q.deliver(item, dropped)
	}
}

func (q *queue[T]) deliver(item T, dropped int) {
	told := false
	defer func() {
		q.delivered()
		if !told {
			q.deliverAll()
		}
	}()
	q.tell(item, dropped)
	told = true
}

func (q *queue[T]) take() (item T, dropped int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.delivering {
		return item, 0, false
	}
	item, dropped, ok = q.box.take()
	q.delivering = ok
	return item, dropped, ok
}

func (q *queue[T]) delivered() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delivering = false
}

// clear drops what is queued. It does not wait for a call that is under way.
func (q *queue[T]) clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.box.items = nil
}
