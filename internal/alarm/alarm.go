// Package alarm serves the deadlines of many runs with one runtime timer. A deadline costs a slot in a heap instead of
// a timer. If ten thousand deadlines fall on one instant, one goroutine serves them instead of ten thousand.
//
// A queue has no goroutine while it waits. The timer of one that has become empty fires once more, within a minute, and
// is not set again: a program with one short run after another does not pay for stopping it. It checks once a minute
// whether the machine slept, so a deadline that passed during sleep fires within a minute after the machine wakes.
//
// The package does not know the fake time of a testing/synctest bubble: a run in a bubble needs its own timer.
package alarm

import (
	"container/heap"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/uptime"
)

// CheckInterval is the longest time that a queue waits before it checks whether the machine slept.
const CheckInterval = time.Minute

// An Item is one deadline in a queue, embedded in the run that owns it. The zero value with its Owner set is ready to
// use. An Item must not be copied after its first use, and must be used with one queue only.
type Item[T any] struct {
	Owner *T
	due   time.Duration
	index int // in the heap, from 1; 0 means not in it
}

// A Queue fires items when they are due. It is safe for concurrent use.
type Queue[T any] struct {
	notify    func(due []*T)
	readSlept func() time.Duration
	base      time.Time
	mu        sync.Mutex
	items     itemHeap[T]
	timer     *time.Timer
	timerDue  time.Duration // 0 if the timer is not set
	slept     time.Duration
}

// New returns a queue. When items are due, it calls notify on a new goroutine with all their owners, earliest first.
// These items are no longer set. Notify must not block; it may set and remove items.
//
// Slept returns how long the machine has slept so far. If that has grown, all items fire, so that their owners can
// check their deadlines.
func New[T any](notify func(due []*T), slept func() time.Duration) *Queue[T] {
	return &Queue[T]{notify: notify, readSlept: slept, base: time.Now()}
}

// A Shared is the queue of a whole program on the machine's clock. It is made at its first use, and not as the program
// starts: so a program that sets no alarm does not link what notify calls. The zero value is ready to use.
type Shared[T any] struct {
	once  sync.Once
	queue *Queue[T]
}

// Queue returns the queue. The first call makes it, with that notify, and must not be in a testing/synctest bubble.
func (s *Shared[T]) Queue(notify func(due []*T)) *Queue[T] {
	s.once.Do(func() {
		began := uptime.Start(time.Now())
		s.queue = New(notify, func() time.Duration { return began.Slept(time.Now()) })
	})
	return s.queue
}

// Set makes the item due after d, and replaces its former deadline. If d is zero or less, it fires at once.
func (q *Queue[T]) Set(item *Item[T], d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Since(q.base)
	q.set(item, dueAfter(now, d), now)
}

// Within makes the item due after d at the latest: one that is due earlier stays as it is.
func (q *Queue[T]) Within(item *Item[T], d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Since(q.base)
	if due := dueAfter(now, d); item.index == 0 || due < item.due {
		q.set(item, due, now)
	}
}

func dueAfter(now, d time.Duration) time.Duration {
	if due := now + d; due >= now || d <= 0 {
		return due
	}
	return 1<<63 - 1
}

func (q *Queue[T]) set(item *Item[T], due, now time.Duration) {
	item.due = due
	if item.index == 0 {
		heap.Push(&q.items, item)
	} else {
		heap.Fix(&q.items, item.index-1)
	}
	q.arm(now)
}

// Remove removes the item. It can still fire if notify is already being called.
func (q *Queue[T]) Remove(item *Item[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if item.index == 0 {
		return
	}
	heap.Remove(&q.items, item.index-1)
}

// arm sets the timer for the earliest item, unless it is set for that time or earlier.
func (q *Queue[T]) arm(now time.Duration) {
	due := min(q.items[0].due, now+CheckInterval)
	if q.timerDue != 0 && q.timerDue <= due {
		return
	}
	q.timerDue = max(due, 1)
	if q.timer == nil {
		q.timer = time.AfterFunc(due-now, q.fire)
		return
	}
	q.timer.Reset(due - now)
}

func (q *Queue[T]) fire() {
	if due := q.takeDue(); len(due) > 0 {
		q.notify(due)
	}
}

// takeDue removes the due items and arms the timer for the rest. If the machine slept, all items are due.
func (q *Queue[T]) takeDue() []*T {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.timerDue = 0
	now := time.Since(q.base)
	if q.wokeUp() {
		return q.takeAll()
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
	q.slept = q.readSlept()
	return q.slept > before
}

func (q *Queue[T]) takeAll() []*T {
	all := make([]*T, len(q.items))
	for i, item := range q.items {
		item.index = 0
		all[i] = item.Owner
	}
	q.items = nil
	return all
}

// An itemHeap holds a queue's items, earliest first.
type itemHeap[T any] []*Item[T]

func (p itemHeap[T]) Len() int           { return len(p) }
func (p itemHeap[T]) Less(i, j int) bool { return p[i].due < p[j].due }

func (p itemHeap[T]) Swap(i, j int) {
	p[i], p[j] = p[j], p[i]
	p[i].index, p[j].index = i+1, j+1
}

// Push implements [heap.Interface].
func (p *itemHeap[T]) Push(item any) {
	it := item.(*Item[T])
	*p = append(*p, it)
	it.index = len(*p)
}

// Pop implements [heap.Interface].
func (p *itemHeap[T]) Pop() any {
	end := len(*p) - 1
	it := (*p)[end]
	(*p)[end] = nil
	*p = (*p)[:end]
	it.index = 0
	return it
}
