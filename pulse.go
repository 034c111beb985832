package watchdog

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// coalesced is how close two signs have to be to count as one.
const coalesced = time.Millisecond

// A pulse takes the signs of life on the machine's clock, without a lock. The next look brings what it holds into the
// decision. A signal sets no timer, because it only ever puts a limit off, unless one waits for it. The pulse stands on
// cache lines of its own, so that signals do not slow down who polls.
type pulse struct {
	_                         [64]byte
	first, activity, progress beat
	awaited                   awaited
	_                         [64]byte
	digests                   digests
}

// awaited are the signs that set the timer, in bits. Who looks sets them before it takes the pulse, and a signal reads
// them after it was noted: one of the two sees the other.
type awaited struct{ atomic.Uint32 }

const (
	// anySign ends a silence that has had the last rung of its ladder: from then on the limit runs again.
	anySign uint32 = 1 << iota
	// someProgress does so with a stretch without progress.
	someProgress
	// resets is progress that puts back a ladder on which directives stand, which is to be recorded.
	resets
)

// await has the next such sign set the timer, or not.
func (a *awaited) await(sign uint32, yes bool) {
	if yes {
		a.Or(sign)
	} else {
		a.And(^sign)
	}
}

// came reports whether the sign is awaited, once.
func (a *awaited) came(progress bool) bool {
	signs := a.Load()
	if !progress {
		signs &= anySign
	}
	return signs != 0 && a.And(^signs)&signs != 0
}

// A beat is the last time of something, in monotonic nanoseconds since the run's base plus one; in its lowest bit,
// whether more came within [coalesced] of it. Zero is never.
type beat struct{ atomic.Int64 }

// at notes the time, unless a newer one is there. A second sign that is close to the first is only marked: cores that
// signal at once then read the same cache line instead of fighting for it.
func (b *beat) at(now time.Duration) {
	for {
		old := b.Load()
		age := int64(now) + 1 - old>>1
		next := (int64(now) + 1) << 1
		switch {
		case old != 0 && age <= 0:
			return
		case old != 0 && age < int64(coalesced):
			if next = old | 1; next == old {
				return
			}
		}
		if b.CompareAndSwap(old, next) {
			return
		}
	}
}

// last returns the time, and not later than now; one with more close behind it counts as the latest of those there can
// be.
func (b *beat) last(now time.Duration) (at time.Duration, ever bool) {
	v := b.Load()
	at = time.Duration(v>>1 - 1)
	if v&1 == 1 {
		at = min(at+coalesced, now)
	}
	return at, v != 0
}

// heed makes signals count from now on, if they did not: at the attach, or at the first hold that limits the silence.
// The caller holds mu, or has just made the watchdog.
func (w *Watchdog) heed() {
	if w.pulse.Load() == nil {
		w.signs()
		w.pulse.Store(&pulse{})
		w.awaitProgress()
	}
}

// signal notes a sign of life of this run alone. It never polls, records or waits: a limit that begins at the first
// sign is nearer than what the timer is set for, so that the first sign sets the timer. So does the first one after the
// last rung of a ladder, and the first progress after a directive, which has to be recorded before the process is
// killed.
func (w *Watchdog) signal(progress bool) {
	pulse := w.pulse.Load()
	if pulse == nil {
		return
	}
	if w.clock.other != nil || w.trace != nil {
		w.signalLocked(progress)
		return
	}
	now := w.clock.base.Since()
	pulse.activity.at(now)
	if progress {
		pulse.progress.at(now)
	}
	first := pulse.first.Load() == 0 && pulse.first.CompareAndSwap(0, (int64(now)+1)<<1)
	if pulse.awaited.came(progress) || first && w.limits.FromFirstSign {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.phase == running {
			w.lookSoon()
		}
	}
}

func (w *Watchdog) signalLocked(progress bool) {
	w.mu.Lock()
	defer w.unlock()
	if w.phase == ended { // one that is being recorded may be taken back
		return
	}
	first := !w.seen.Signs.Signalled
	kind := SignalActivity
	if progress {
		kind = SignalProgress
	}
	w.signalTaken(Signal{Kind: kind})
	if w.pulse.Load().awaited.came(progress) || first && w.limits.FromFirstSign {
		w.lookSoon()
	}
}

// takePulse brings the signs of life into the decision. What the machine slept does not count as silence: it is taken
// to lie before them. The caller holds mu.
func (w *Watchdog) takePulse(elapsed time.Duration) {
	pulse := w.pulse.Load()
	if pulse == nil || w.clock.other != nil {
		return
	}
	now, offset := w.clock.sinceBase(elapsed), w.clock.atBase+w.clock.slept
	signs := w.seen.Signs
	if at, ever := pulse.first.last(now); ever && !signs.Signalled {
		signs.Signal(false, at+offset)
	}
	if at, ever := pulse.activity.last(now); ever {
		signs.Signal(false, at+offset)
	}
	if at, ever := pulse.progress.last(now); ever {
		signs.Signal(true, at+offset)
	}
}

// signs are the run's signs, made at the first need. The caller holds mu.
func (w *Watchdog) signs() *verdict.Signs {
	if w.seen.Signs == nil {
		w.seen.Signs = &verdict.Signs{}
	}
	return w.seen.Signs
}

// maxDigests is how many digests of progress are remembered.
const maxDigests = 1024

// digests remembers what progress was seen, the oldest forgotten first. It keeps hashes, so that a digest may be as
// long as it likes.
type digests struct {
	mu   sync.Mutex
	seen map[uint64]struct{}
	ring []uint64
	next int
}

var digestSeed = maphash.MakeSeed()

// add reports whether the digest was not remembered, and remembers it.
func (d *digests) add(digest string) bool {
	hash := maphash.String(digestSeed, digest)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.seen[hash]; known {
		return false
	}
	if d.seen == nil {
		d.seen = map[uint64]struct{}{}
	}
	d.seen[hash] = struct{}{}
	if len(d.ring) < maxDigests {
		d.ring = append(d.ring, hash)
		return true
	}
	delete(d.seen, d.ring[d.next])
	d.ring[d.next], d.next = hash, (d.next+1)%maxDigests
	return true
}
