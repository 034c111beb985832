// Package alarm rings many runs under one runtime timer: a deadline costs a slot in a heap instead of a timer, and
// ten thousand that fall on one instant are rung by one goroutine instead of by as many.
//
// A queue has no goroutine while it waits and no timer while it is empty. It looks at the machine's sleep once a
// minute, so that a deadline that passed while the machine slept rings within a minute of its waking.
//
// It does not know the fake time of a testing/synctest bubble: what runs in one needs a timer of its own.
package alarm

import (
	"container/heap"
	"sync"
	"time"
)

// Glance is how long a queue waits at most before it looks whether the machine slept.
const Glance = time.Minute

// An Item is one place in a queue, embedded in the run that owns it. The zero value with its Owner set is ready; it
// must not be copied once it was set, and belongs to one queue.
type Item[T any] struct {
	Owner *T
	due   time.Duration
	place int // in the heap, from 1; 0 is nowhere
}

// A Queue rings items when they are due. Safe for concurrent use.
type Queue[T any] struct {
	ring  func(due []*T)
	sleep func() time.Duration
	base  time.Time
	mu    sync.Mutex
	items places[T]
	timer *time.Timer
	armed time.Duration // when the timer is due; 0 if it is not set
	slept time.Duration
}

// New returns a queue that calls ring, on a goroutine of its own, with all owners that are due at one time, earliest first. An item
// that rang is no longer set. Ring must not block; it may set and remove items. Slept tells how long the machine has slept
// so far; when that grew, all items ring, for their owners to look for themselves.
func New[T any](ring func(due []*T), slept func() time.Duration) *Queue[T] {
	return &Queue[T]{ring: ring, sleep: slept, base: time.Now()}
}

// Set makes the item due after d, in place of when it was due before. At zero or less it rings at once.
func (q *Queue[T]) Set(item *Item[T], d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Since(q.base)
	if item.due = now + d; item.due < now && d > 0 {
		item.due = 1<<63 - 1
	}
	if item.place == 0 {
		heap.Push(&q.items, item)
	} else {
		heap.Fix(&q.items, item.place-1)
	}
	q.arm(now)
}

// Remove takes the item out. It may still ring if that has begun.
func (q *Queue[T]) Remove(item *Item[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if item.place == 0 {
		return
	}
	heap.Remove(&q.items, item.place-1)
	if len(q.items) == 0 {
		q.timer.Stop()
		q.armed = 0
	}
}

// arm sets the timer for the earliest item, unless it is set for then or earlier.
func (q *Queue[T]) arm(now time.Duration) {
	due := min(q.items[0].due, now+Glance)
	if q.armed != 0 && q.armed <= due {
		return
	}
	q.armed = max(due, 1)
	if q.timer == nil {
		q.timer = time.AfterFunc(due-now, q.fire)
		return
	}
	q.timer.Reset(due - now)
}

func (q *Queue[T]) fire() {
	if due := q.take(); len(due) > 0 {
		q.ring(due)
	}
}

// take removes what is due and arms the timer for the rest. After the machine slept everything is due.
func (q *Queue[T]) take() []*T {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.armed = 0
	now := time.Since(q.base)
	if q.wokeUp() {
		return q.drain()
	}
	var due []*T
	for len(q.items) > 0 && q.items[0].due <= now {
		due = append(due, heap.Pop(&q.items).(*Item[T]).Owner)
	}
	if len(q.items) > 0 {
		q.arm(now)
	}
	return due
}

func (q *Queue[T]) wokeUp() bool {
	before := q.slept
	q.slept = q.sleep()
	return q.slept > before
}

func (q *Queue[T]) drain() []*T {
	all := make([]*T, len(q.items))
	for i, item := range q.items {
		item.place = 0
		all[i] = item.Owner
	}
	q.items = nil
	return all
}

// places is the heap of a queue's items, earliest first.
type places[T any] []*Item[T]

func (p places[T]) Len() int           { return len(p) }
func (p places[T]) Less(i, j int) bool { return p[i].due < p[j].due }

func (p places[T]) Swap(i, j int) {
	p[i], p[j] = p[j], p[i]
	p[i].place, p[j].place = i+1, j+1
}

// Push implements [heap.Interface].
func (p *places[T]) Push(item any) {
	it := item.(*Item[T])
	*p = append(*p, it)
	it.place = len(*p)
}

// Pop implements [heap.Interface].
func (p *places[T]) Pop() any {
	end := len(*p) - 1
	it := (*p)[end]
	(*p)[end] = nil
	*p = (*p)[:end]
	it.place = 0
	return it
}
