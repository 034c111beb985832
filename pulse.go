package watchdog

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/internal/beat"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A pulse takes the signs of life on the machine's clock, without a lock. The next look brings what it holds into the
// decision. A signal sets no timer, because it only ever puts a limit off. The pulse stands on cache lines of its own,
// so that signals do not slow down who polls.
type pulse struct {
	_                         [64]byte
	first, activity, progress beat.Beat
	_                         [64]byte
	digests                   digests
	// given tells that directives stand on a ladder, so that progress has something to record.
	given atomic.Bool
}

// signal notes a sign of life of this run alone. It never polls, records or waits: a limit that begins at the first
// sign is nearer than what the timer is set for, so that the first sign sets the timer. So does the first progress
// after a directive, which has to be recorded before the process is killed.
func (w *Watchdog) signal(progress bool) {
	if w.pulse == nil {
		return
	}
	if w.clock.other != nil || w.trace != nil {
		w.signalLocked(progress)
		return
	}
	w.signalAt(progress, w.clock.base.Since())
}

// signalAt is signal on the machine's clock, at a time since the run's base.
func (w *Watchdog) signalAt(progress bool, now time.Duration) {
	w.pulse.activity.At(now)
	if progress {
		w.pulse.progress.At(now)
	}
	first := w.pulse.first.First(now)
	if first && w.limits.FromFirstSign || progress && w.pulse.given.Load() && w.pulse.given.CompareAndSwap(true, false) {
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
	if first && w.limits.FromFirstSign || progress && w.pulse.given.Load() {
		w.lookSoon()
	}
}

// takePulse brings the signs of life into the decision. What the machine slept does not count as silence: it is taken
// to lie before them. The caller holds mu.
func (w *Watchdog) takePulse(elapsed time.Duration) {
	if w.pulse == nil || w.clock.other != nil {
		return
	}
	now, offset := w.clock.sinceBase(elapsed), w.clock.atBase+w.clock.slept
	signs := w.seen.Signs
	if at, ever := w.pulse.first.Last(now); ever && !signs.Signalled {
		signs.Signal(false, at+offset)
	}
	if at, ever := w.pulse.activity.Last(now); ever {
		signs.Signal(false, at+offset)
	}
	if at, ever := w.pulse.progress.Last(now); ever {
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
