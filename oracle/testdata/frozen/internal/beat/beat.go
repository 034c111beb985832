// Package beat keeps when something last came, for whoever counts silence: cheap enough to be told of every token, and
// without a lock.
package beat

import (
	"sync/atomic"
	"time"
)

// Coalesced is how close two signs have to be to count as one.
const Coalesced = time.Millisecond

// A Beat is the last time of something, as a length since an instant that its owner picks. It is kept in nanoseconds
// plus one; in its lowest bit, whether more came within [Coalesced] of it. The zero value is never. It is safe for
// concurrent use.
type Beat struct{ v atomic.Int64 }

// At notes the time, unless a newer one is there. A second sign that is close to the first is only marked: cores that
// signal at once then read the same cache line instead of fighting for it.
func (b *Beat) At(now time.Duration) {
	for {
		old := b.v.Load()
		age := int64(now) + 1 - old>>1
		next := (int64(now) + 1) << 1
		switch {
		case old != 0 && age <= 0:
			return
		case old != 0 && age < int64(Coalesced):
			if next = old | 1; next == old {
				return
			}
		}
		if b.v.CompareAndSwap(old, next) {
			return
		}
	}
}

// First notes the time if there is none yet, and reports whether it did.
func (b *Beat) First(now time.Duration) bool {
	return b.v.Load() == 0 && b.v.CompareAndSwap(0, (int64(now)+1)<<1)
}

// Last returns the time, and not later than now; one with more close behind it counts as the latest of those there can
// be.
func (b *Beat) Last(now time.Duration) (at time.Duration, ever bool) {
	v := b.v.Load()
	at = time.Duration(v>>1 - 1)
	if v&1 == 1 {
		at = min(at+Coalesced, now)
	}
	return at, v != 0
}

// A Mark names the last sign: it differs after each that is not taken for one with the sign before. Zero is none.
type Mark int64

// Mark returns that of the last sign.
func (b *Beat) Mark() Mark { return Mark(b.v.Load()) }
