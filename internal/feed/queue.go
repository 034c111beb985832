package feed

import (
	"slices"
	"sync"
)

// A box has what one receiver has not taken. Its owner guards it.
type box[T any] struct {
	items   []T
	most    int // 0 is any number
	dropped int
}

func (b *box[T]) put(item T) {
	if b.most > 0 && len(b.items) == b.most {
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

// A Queue gives items to one receiver, in order and one at a time, on the goroutine of whoever delivers. It is safe for
// concurrent use. A nil one is empty.
type Queue[T any] struct {
	tell func(item T, dropped int)

	mu         sync.Mutex
	box        box[T]
	delivering bool
}

// NewQueue returns a queue in which at most so many items wait, then the oldest is dropped; 0 is any number. Tell gets
// each, with the number of those that were dropped before it. It may block, or end its goroutine, and must not panic.
func NewQueue[T any](most int, tell func(item T, dropped int)) *Queue[T] {
	return &Queue[T]{tell: tell, box: box[T]{most: most}}
}

// Add puts items into the queue. It calls nobody.
func (q *Queue[T]) Add(items ...T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, item := range items {
		q.box.put(item)
	}
}

// Waiting reports whether somebody has to deliver: there is something, and nobody is at it.
func (q *Queue[T]) Waiting() bool {
	if q == nil {
		return false
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.box.items) > 0 && !q.delivering
}

// Deliver gives the receiver all that is queued, unless somebody else is at it: that one takes the newer items, too. If
// the receiver ends this goroutine, the others are delivered before it ends.
func (q *Queue[T]) Deliver() {
	if q == nil {
		return
	}
	for item, dropped, ok := q.take(); ok; item, dropped, ok = q.take() {
		q.deliver(item, dropped)
	}
}

func (q *Queue[T]) deliver(item T, dropped int) {
	told := false
	defer func() {
		q.delivered()
		if !told {
			q.Deliver()
		}
	}()
	q.tell(item, dropped)
	told = true
}

func (q *Queue[T]) take() (item T, dropped int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.delivering {
		return item, 0, false
	}
	item, dropped, ok = q.box.take()
	q.delivering = ok
	return item, dropped, ok
}

func (q *Queue[T]) delivered() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.delivering = false
}

// Clear drops what is queued. It does not wait for a call that is under way.
func (q *Queue[T]) Clear() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.box.items = nil
}
