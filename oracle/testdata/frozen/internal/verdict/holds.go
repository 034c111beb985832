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

// HoldLimits say how long a hold may be open, and how long it may be silent meanwhile. An Idle of 0 allows any silence.
type HoldLimits struct {
	Cap, Idle time.Duration
}

// An OpenHold is a stretch in which silence is expected, at most for as long as its Idle says.
type OpenHold struct {
	HoldID
	HoldLimits
	Opened time.Duration
	Rung   Rung
	// Owner is for the caller. No verdict depends on it.
	Owner any

	before int    // how many holds were opened before it
	index  [2]int // in the heaps, by their places
}

// Holds are the open holds of a run, in heaps: the one whose cap is exceeded first and the one that allows the longest
// silence are found at once, and opening or closing one costs the logarithm of how many there are. A nil Holds has
// none.
type Holds struct {
	byID   map[HoldID]*OpenHold
	caps   holdHeap // all, the one that expires first at its top
	idles  holdHeap // those with an Idle, the longest at its top
	opened int
}

func newHolds() *Holds {
	return &Holds{
		byID: map[HoldID]*OpenHold{}, caps: holdHeap{before: expiresFirst}, idles: holdHeap{before: allowsLonger, place: 1},
	}
}

// Len returns how many are open.
func (h *Holds) Len() int {
	if h == nil {
		return 0
	}
	return len(h.caps.holds)
}

// large reports whether it has room for more holds than a run mostly has. What has is not kept for the next hold.
func (h *Holds) large() bool { return cap(h.caps.holds) > 16 }

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
		owners[i] = h.caps.holds[i].Owner
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
func (h *Holds) first() *OpenHold { return h.caps.holds[0] }

// longest returns the hold that allows the longest silence; of equal ones that which was opened first. It returns nil
// if one of them allows any.
func (h *Holds) longest() *OpenHold {
	if len(h.idles.holds) < len(h.caps.holds) {
		return nil
	}
	return h.idles.holds[0]
}

// Idle returns the silence that they allow.
func (h *Holds) Idle() time.Duration {
	if h.Len() == 0 {
		return Never
	}
	if longest := h.longest(); longest != nil {
		return longest.Idle
	}
	return Never
}

func (h *Holds) add(id HoldID, limits HoldLimits, now time.Duration) {
	open := &OpenHold{HoldID: id, HoldLimits: limits, Opened: now, before: h.opened}
	h.opened++
	h.byID[id] = open
	heap.Push(&h.caps, open)
	if open.limitsSilence() {
		heap.Push(&h.idles, open)
	}
}

func (h *Holds) remove(open *OpenHold) {
	heap.Remove(&h.caps, open.index[h.caps.place])
	if open.limitsSilence() {
		heap.Remove(&h.idles, open.index[h.idles.place])
	}
	delete(h.byID, open.HoldID)
}

func (h *OpenHold) limitsSilence() bool { return h.Idle != 0 && h.Idle != Never }

// setIdle gives an open hold another limit of silence.
func (h *Holds) setIdle(id HoldID, idle time.Duration) {
	open := h.Find(id)
	if open == nil {
		return
	}
	if open.limitsSilence() {
		heap.Remove(&h.idles, open.index[h.idles.place])
	}
	if open.Idle = idle; open.limitsSilence() {
		heap.Push(&h.idles, open)
	}
}

// setRung moves a hold on its ladder. Its cap begins anew at the instant of the rung.
func (h *Holds) setRung(id HoldID, r Rung) {
	if r.Attempts <= 0 {
		return
	}
	if open := h.Find(id); open != nil {
		open.Rung = r
		heap.Fix(&h.caps, open.index[h.caps.place])
	}
}

// A holdHeap has the hold that comes before all others at its top. It counts comparisons for the tests.
type holdHeap struct {
	holds    []*OpenHold
	before   func(a, b *OpenHold) bool
	place    int // of this heap in the index of a hold
	compared int
}

// expiresFirst reports whether the cap of a is exceeded before that of b; at one instant the hold that was opened first
// comes first.
func expiresFirst(a, b *OpenHold) bool {
	first, second := a.timer(), b.timer()
	if at, other := first.expiresAt(), second.expiresAt(); at != other {
		return at < other
	}
	return a.before < b.before
}

// allowsLonger reports whether a allows a longer silence than b; of equal ones the hold that was opened first comes
// first.
func allowsLonger(a, b *OpenHold) bool {
	if a.Idle != b.Idle {
		return a.Idle > b.Idle
	}
	return a.before < b.before
}

func (p *holdHeap) Len() int { return len(p.holds) }

// Less implements [heap.Interface].
func (p *holdHeap) Less(i, j int) bool {
	p.compared++
	return p.before(p.holds[i], p.holds[j])
}

// Swap implements [heap.Interface].
func (p *holdHeap) Swap(i, j int) {
	p.holds[i], p.holds[j] = p.holds[j], p.holds[i]
	p.holds[i].index[p.place], p.holds[j].index[p.place] = i, j
}

// Push implements [heap.Interface].
func (p *holdHeap) Push(open any) {
	h := open.(*OpenHold)
	h.index[p.place] = len(p.holds)
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
