package machine

import (
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/internal/beat"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Port is what is written and read of a run without the lock of its tree: a sign of life per token, and a poll that
// finds nothing.
type Port struct {
	// Pulse is nil while nothing heeds signals.
	Pulse atomic.Pointer[Pulse]
	// Note is the last thing noted, nil for nothing.
	Note atomic.Pointer[string]
	// quietUntil is when, in monotonic time since the base of the tree's clock, a poll has to look closely; 0 is always.
	quietUntil atomic.Int64
}

// Quiet reports that nothing can have happened since the last look, at a monotonic time since the base of the tree's
// clock.
func (p *Port) Quiet(since time.Duration) bool { return int64(since) < p.quietUntil.Load() }

// MayBeQuiet reports that Quiet has to be asked: on a clock of the host's it never is.
func (p *Port) MayBeQuiet() bool { return p.quietUntil.Load() > 0 }

// LookClosely has the next poll look.
func (p *Port) LookClosely() { p.quietUntil.Store(0) }

// LastNote is the last thing noted, empty for nothing.
func (p *Port) LastNote() string {
	if note := p.Note.Load(); note != nil {
		return *note
	}
	return ""
}

// A Pulse takes the signs of life on the machine's clock. The next look brings what it holds into the decision. A
// signal sets no timer, because it only ever puts a limit off, unless one waits for it. The pulse stands on cache lines
// of its own, so that signals do not slow down who polls.
type Pulse struct {
	_                         [64]byte
	first, activity, progress beat.Beat
	awaited                   awaited
	_                         [64]byte
}

// At notes a sign at a time since the base of the tree's clock. It reports whether the timer has to be set for it.
func (p *Pulse) At(progress, fromFirst bool, now time.Duration) (awaited bool) {
	p.activity.At(now)
	if progress {
		p.progress.At(now)
	}
	first := p.first.First(now)
	return p.awaited.came(progress) || first && fromFirst
}

// awaitReset has the next progress set the timer, or not. A nil pulse waits for nothing.
func (p *Pulse) awaitReset(yes bool) {
	if p != nil {
		p.awaited.await(resets, yes)
	}
}

// awaitEnd has the next sign set the timer that ends a stretch in which nothing more is asked after the verdict.
func (p *Pulse) awaitEnd(v *verdict.Verdict) {
	switch {
	case p == nil || !v.Last:
	case v.Limit == verdict.Idle:
		p.awaited.await(anySign, true)
	case v.Limit == verdict.NoProgress:
		p.awaited.await(someProgress, true)
	}
}

// into brings the signs into what is known of a run, by a time since the base of the clock. The offset is from there to
// the run's window. What the machine slept does not count as silence: it is taken to lie before the signs.
func (p *Pulse) into(signs *verdict.Signs, since, offset time.Duration) {
	if at, ever := p.first.Last(since); ever {
		signs.Signal(false, at+offset)
	}
	if at, ever := p.activity.Last(since); ever {
		signs.Signal(false, at+offset)
	}
	if at, ever := p.progress.Last(since); ever {
		signs.Signal(true, at+offset)
	}
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
