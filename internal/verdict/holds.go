package verdict

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/ordered"
)

// A HoldID tells a hold from the others that are open. If several have one key, their Serials differ. A hold without a
// key is that of a command in flight: it has no cap and allows any silence.
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

	// Of those of one time the one that was opened first comes first.
	expires, allows ordered.Due[*OpenHold]
}

// Holds are the open holds of a run, in heaps: the one whose cap is exceeded first and the one that allows the longest
// silence are found at once, and opening or closing one costs the logarithm of how many there are. A nil Holds has
// none.
type Holds struct {
	byID    map[HoldID]*OpenHold
	caps    ordered.Heap[*OpenHold] // all, by when they expire
	idles   ordered.Heap[*OpenHold] // those with an Idle, the longest first
	opened  int
	unnamed int // of byID
}

// Len returns how many are open.
func (h *Holds) Len() int {
	if h == nil {
		return 0
	}
	return len(h.byID)
}

// Named returns how many with a key are open.
func (h *Holds) Named() int {
	if h == nil {
		return 0
	}
	return len(h.byID) - h.unnamed
}

// large reports whether it has room for more holds than a run mostly has. What has is not kept for the next hold.
func (h *Holds) large() bool { return cap(h.caps.All()) > 16 }

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
		owners[i] = h.caps.All()[i].Of.Owner
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
func (h *Holds) first() *OpenHold { return h.caps.All()[0].Of }

// longest returns the hold that allows the longest silence; of equal ones that which was opened first. It returns nil
// if one of them allows any.
func (h *Holds) longest() *OpenHold {
	if len(h.idles.All()) < len(h.byID) {
		return nil
	}
	return h.idles.All()[0].Of
}

// idle returns the silence that those with a key allow, of which at least one is open.
func (h *Holds) idle() time.Duration {
	if all := h.idles.All(); len(all) == h.Named() {
		return all[0].Of.Idle
	}
	return Never
}

func (h *Holds) add(id HoldID, limits HoldLimits, now time.Duration) {
	open := &OpenHold{HoldID: id, HoldLimits: limits, Opened: now}
	open.expires = ordered.Due[*OpenHold]{Of: open, Turn: h.opened}
	open.allows = open.expires
	h.opened++
	h.byID[id] = open
	if id.Key == "" {
		h.unnamed++
	}
	h.place(open)
}

// place puts an open hold where its limits have it in the heaps.
func (h *Holds) place(open *OpenHold) {
	s := open.timer()
	h.caps.Set(&open.expires, s.expiresAt())
	if open.Idle == 0 || open.Idle == Never {
		h.idles.Remove(&open.allows)
	} else {
		h.idles.Set(&open.allows, -open.Idle)
	}
}

func (h *Holds) remove(open *OpenHold) {
	h.caps.Remove(&open.expires)
	h.idles.Remove(&open.allows)
	delete(h.byID, open.HoldID)
	if open.Key == "" {
		h.unnamed--
	}
}

// setRung moves a hold on its ladder. Its cap begins anew at the instant of the rung.
func (h *Holds) setRung(id HoldID, r Rung) {
	if open := h.Find(id); open != nil && r.Attempts > 0 {
		open.Rung = r
		h.place(open)
	}
}
