package machine

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A due is when something is to be looked at, in the tree's time.
type due[T any] struct {
	of    T
	at    time.Duration
	place int // in the queue, counted from 1; 0 for none
}

// A queue is what is to be looked at, as a heap: what is due first stands at its top.
type queue[T any] struct {
	all []*due[T]
	one [1]*due[T] // room for a session alone
}

func (q *queue[T]) first() time.Duration {
	if len(q.all) == 0 {
		return verdict.Never
	}
	return q.all[0].at
}

// set has it looked at then.
func (q *queue[T]) set(d *due[T], at time.Duration) {
	if d.place == 0 {
		if q.all == nil {
			q.all = q.one[:0]
		}
		q.all = append(q.all, d)
		d.place = len(q.all)
	}
	d.at = at
	q.fix(d.place - 1)
}

// take removes what is due first, and returns it, if that is by now.
func (q *queue[T]) take(now time.Duration) *due[T] {
	if q.first() > now {
		return nil
	}
	d := q.all[0]
	q.remove(d)
	return d
}

// remove does nothing for what is not in the queue.
func (q *queue[T]) remove(d *due[T]) {
	at, end := d.place-1, len(q.all)-1
	if at < 0 {
		return
	}
	q.swap(at, end)
	q.all[end], q.all, d.place = nil, q.all[:end], 0
	if at < end {
		q.fix(at)
	}
}

// fix puts what stands in a place where it belongs.
func (q *queue[T]) fix(at int) {
	for above := (at - 1) / 2; at > 0 && q.all[at].at < q.all[above].at; above = (at - 1) / 2 {
		q.swap(at, above)
		at = above
	}
	for least := at; ; at = least {
		for below := 2*at + 1; below <= 2*at+2 && below < len(q.all); below++ {
			if q.all[below].at < q.all[least].at {
				least = below
			}
		}
		if least == at {
			return
		}
		q.swap(at, least)
	}
}

func (q *queue[T]) swap(i, j int) {
	q.all[i], q.all[j] = q.all[j], q.all[i]
	q.all[i].place, q.all[j].place = i+1, j+1
}
