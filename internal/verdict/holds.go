package verdict

import (
	"container/heap"
	"time"
)

// A HoldID tells a hold from the others that are open. If several have one key, their Serials differ.
type HoldID struct {
	Key    string
	Serial int
}

// An OpenHold is a stretch in which silence is expected.
type OpenHold struct {
	HoldID
	Opened time.Duration
	Cap    time.Duration
	Rung   Rung
	// Owner is for the caller. No verdict depends on it.
	Owner any

	before int // how many holds were opened before it
	index  int // in the heap
}

// Holds are the open holds of a run, in a heap: the one whose cap is exceeded first is found at once, and opening or
// closing one costs the logarithm of how many there are. A nil Holds has none.
type Holds struct {
	byID   map[HoldID]*OpenHold
	heap   holdHeap
	opened int
}

// Len returns how many are open.
func (h *Holds) Len() int {
	if h == nil {
		return 0
	}
	return len(h.heap.holds)
}

// Find returns the hold, or nil if it is not open.
func (h *Holds) Find(id HoldID) *OpenHold {
	if h == nil {
		return nil
	}
	return h.byID[id]
}

// Owners returns the owners of all holds, in no order.
func (h *Holds) Owners() []any {
	owners := make([]any, h.Len())
	for i := range owners {
		owners[i] = h.heap.holds[i].Owner
	}
	return owners
}

// NextSerial returns a Serial, greater than 0, that no open hold has.
func (h *Holds) NextSerial() int {
	if h == nil {
		return 1
	}
	return h.opened + 1
}

// first returns the hold that expires first; at one instant the one that was opened first. There is at least one.
func (h *Holds) first() *OpenHold { return h.heap.holds[0] }

func (h *Holds) add(id HoldID, limit, now time.Duration) {
	open := &OpenHold{HoldID: id, Opened: now, Cap: limit, before: h.opened}
	h.opened++
	h.byID[id] = open
	heap.Push(&h.heap, open)
}

func (h *Holds) remove(open *OpenHold) {
	heap.Remove(&h.heap, open.index)
	delete(h.byID, open.HoldID)
}

// setRung moves a hold on its ladder, which begins its cap anew.
func (h *Holds) setRung(id HoldID, r Rung) {
	if open := h.Find(id); open != nil {
		open.Rung = r
		heap.Fix(&h.heap, open.index)
	}
}

// startAt begins a hold on a rung of its ladder, which leaves its cap as it is.
func (h *Holds) startAt(id HoldID, rung int, opened time.Duration) {
	if rung > 0 {
		h.setRung(id, Rung{rung, opened})
	}
}

// A holdHeap has the hold that expires first at its top. It counts comparisons for the tests.
type holdHeap struct {
	holds    []*OpenHold
	compared int
}

func (p *holdHeap) Len() int { return len(p.holds) }

// Less implements [heap.Interface].
func (p *holdHeap) Less(i, j int) bool {
	p.compared++
	a, b := p.holds[i], p.holds[j]
	first, second := a.timer(), b.timer()
	if at, other := first.expiresAt(), second.expiresAt(); at != other {
		return at < other
	}
	return a.before < b.before
}

// Swap implements [heap.Interface].
func (p *holdHeap) Swap(i, j int) {
	p.holds[i], p.holds[j] = p.holds[j], p.holds[i]
	p.holds[i].index, p.holds[j].index = i, j
}

// Push implements [heap.Interface].
func (p *holdHeap) Push(open any) {
	h := open.(*OpenHold)
	h.index = len(p.holds)
	p.holds = append(p.holds, h)
}

// Pop implements [heap.Interface].
func (p *holdHeap) Pop() any {
	end := len(p.holds) - 1
	h := p.holds[end]
	p.holds[end] = nil
	p.holds = p.holds[:end]
	return h
}
