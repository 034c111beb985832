package watchdog

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/beat"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// A pulse takes the signs of life on the machine's clock, without a lock. The next look brings what it holds into the
// decision. A signal sets no timer, because it only ever puts a limit off, unless one waits for it. The pulse stands on
// cache lines of its own, so that signals do not slow down who polls.
type pulse struct {
	_                         [64]byte
	first, activity, progress beat.Beat
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
	w.signalAt(pulse, progress, w.clock.base.Since())
}

// signalAt is signal on the machine's clock, at a time since the run's base.
func (w *Watchdog) signalAt(pulse *pulse, progress bool, now time.Duration) {
	pulse.activity.At(now)
	if progress {
		pulse.progress.At(now)
	}
	first := pulse.first.First(now)
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
	if at, ever := pulse.first.Last(now); ever && !signs.Signalled {
		signs.Signal(false, at+offset)
	}
	if at, ever := pulse.activity.Last(now); ever {
		signs.Signal(false, at+offset)
	}
	if at, ever := pulse.progress.Last(now); ever {
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
