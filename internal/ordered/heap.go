package ordered

import (
	"math"
	"time"
)

// A Due is something that a [Heap] has at a time. The zero value is in none; it must not be copied while it is in one.
type Due[T any] struct {
	Of T
	// Turn tells which comes first of those at one time: the least.
	Turn int

	at    time.Duration
	place int // in the heap, counted from 1; 0 for none
}

// Waits reports whether it is in a heap.
func (d *Due[T]) Waits() bool { return d.place > 0 }

// A Heap finds what is due first at once. To set or remove something costs the logarithm of how many there are. The
// zero value is empty.
type Heap[T any] struct {
	all []*Due[T]
	one [1]*Due[T] // room for one alone
}

// All returns what is in the heap, what is due first before the rest, which has no order.
func (h *Heap[T]) All() []*Due[T] { return h.all }

// First is when the first is due, the longest Duration for never.
func (h *Heap[T]) First() time.Duration {
	if len(h.all) == 0 {
		return math.MaxInt64
	}
	return h.all[0].at
}

// Set makes it due then.
func (h *Heap[T]) Set(d *Due[T], at time.Duration) {
	if d.place == 0 {
		if h.all == nil {
			h.all = h.one[:0]
		}
		h.all = append(h.all, d)
		if d.place = len(h.all); d.place > len(h.one) {
			h.one[0] = nil // all has moved, and what has been removed must not be kept
		}
	}
	d.at = at
	h.fix(d.place - 1)
}

// Within makes it due then at the latest, and reports whether that is news.
func (h *Heap[T]) Within(d *Due[T], at time.Duration) bool {
	if d.place > 0 && d.at <= at {
		return false
	}
	h.Set(d, at)
	return true
}

// Take removes what is due first, and returns it, if that is by now.
func (h *Heap[T]) Take(now time.Duration) *Due[T] {
	if len(h.all) == 0 || h.all[0].at > now {
		return nil
	}
	d := h.all[0]
	h.Remove(d)
	return d
}

// Remove does nothing for what is not in the heap.
func (h *Heap[T]) Remove(d *Due[T]) {
	at, end := d.place-1, len(h.all)-1
	if at < 0 {
		return
	}
	h.swap(at, end)
	h.all[end], h.all, d.place = nil, h.all[:end], 0
	if at < end {
		h.fix(at)
	}
}

// fix puts what stands in a place where it belongs.
func (h *Heap[T]) fix(at int) {
	for above := (at - 1) / 2; at > 0 && h.before(at, above); above = (at - 1) / 2 {
		h.swap(at, above)
		at = above
	}
	for least := at; ; at = least {
		for below := 2*at + 1; below <= 2*at+2 && below < len(h.all); below++ {
			if h.before(below, least) {
				least = below
			}
		}
		if least == at {
			return
		}
		h.swap(at, least)
	}
}

func (h *Heap[T]) before(i, j int) bool {
	one, other := h.all[i], h.all[j]
	return one.at < other.at || one.at == other.at && one.Turn < other.Turn
}

func (h *Heap[T]) swap(i, j int) {
	h.all[i], h.all[j] = h.all[j], h.all[i]
	h.all[i].place, h.all[j].place = i+1, j+1
}
