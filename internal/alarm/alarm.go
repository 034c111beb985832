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
	"math"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/ordered"
	"github.com/seed62658d38/watchdog/internal/uptime"
)

// CheckInterval is the longest time that a queue waits before it checks whether the machine slept.
const CheckInterval = time.Minute

// An Item is one deadline in a queue, embedded in the run that owns it. The zero value with its Owner set is ready to
// use. An Item must not be copied after its first use, and must be used with one queue only.
type Item[T any] struct {
	Owner *T
	due   ordered.Due[*Item[T]]
	late  time.Duration // how late the timer was that rang for it last
}

// A Queue fires items when they are due. It is safe for concurrent use.
type Queue[T any] struct {
	notify    func(due []*T)
	readSlept func() time.Duration
	base      time.Time
	mu        sync.Mutex
	items     ordered.Heap[*Item[T]]
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

// Within makes the item due after d at the latest: one that is due earlier stays as it is. If d is zero or less, it
// fires at once.
func (q *Queue[T]) Within(item *Item[T], d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Since(q.base)
	item.due.Of = item
	if q.timerDue == 0 { // that it slept before concerns nobody
		q.slept = q.readSlept()
	}
	if q.items.Within(&item.due, dueAfter(now, d)) {
		q.arm(now)
	}
}

const never = time.Duration(math.MaxInt64)

func dueAfter(now, d time.Duration) time.Duration {
	if due := now + d; due >= now || d <= 0 {
		return due
	}
	return never
}

// Remove removes the item. It can still fire if notify is already being called.
func (q *Queue[T]) Remove(item *Item[T]) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.items.Remove(&item.due)
}

// Late returns how late the timer was when it rang for the item, or how late it is, if it has not rung yet and should
// have: how long after the time that it was set for, with what the machine slept meanwhile. How long the ring takes to
// get from one item to the next is not in it.
func (q *Queue[T]) Late(item *Item[T]) time.Duration {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !item.due.Waits() {
		return item.late
	}
	return q.late(time.Since(q.base), q.readSlept())
}

func (q *Queue[T]) late(now, slept time.Duration) time.Duration {
	if q.timerDue == 0 {
		return 0
	}
	return max(now-q.timerDue+max(slept-q.slept, 0), 0)
}

// arm sets the timer for the earliest item, unless it is set for that time or earlier. One that is late stays late.
func (q *Queue[T]) arm(now time.Duration) {
	due := max(min(q.items.First(), now+CheckInterval), now)
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
	if due := q.takeDue(time.Since(q.base)); len(due) > 0 {
		q.notify(due)
	}
}

// takeDue removes the items that are due at a ring and arms the timer for the rest. If the machine slept, all items are
// due.
func (q *Queue[T]) takeDue(now time.Duration) []*T {
	q.mu.Lock()
	defer q.mu.Unlock()
	slept, until := q.readSlept(), now
	if slept > q.slept {
		until = never
	}
	late := q.late(now, slept)
	q.timerDue, q.slept = 0, slept
	var due []*T
	for item := q.items.Take(until); item != nil; item = q.items.Take(until) {
		item.Of.late = late
		due = append(due, item.Of.Owner)
	}
	if len(q.items.All()) > 0 {
		q.arm(now)
	}
	return due
}
