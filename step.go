package watchdog

import (
	"fmt"
	"sync"

	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/loop"
)

// fusePatience is how often a fuse may blow after the host was asked, before the next rung of the ladder.
const fusePatience = 8

// A looper finds out whether a run repeats itself.
type looper struct {
	mu       sync.Mutex
	detector *loop.Detector
	asked    bool // the host was asked to stop it, and has not taken that yet
	fused    int  // how often the fuse has blown since
}

// Step tells of one turn of the agent: the calls of tools that it made at once, with what came back. It is activity,
// and progress if it did something new, or something old that had another outcome.
//
// A run that does the same again and gets the same, see package loop, is asked to stop that, with [DirectiveUnstuck]
// and the reason [LoopDetected]; one that goes on with it after the host has taken the directive from [Watchdog.Poll],
// [Watchdog.Pending] or [Watchdog.Subscribe] is ended. [Ladders].Loop asks for something else. Steps count for the run
// that they are told to, and not for those around a layer. Nothing of them is kept but digests.
//
// It returns what was found; the run has been asked or ended by then. It never waits for the store. On a nil Watchdog,
// and if the run is disabled, nothing is found.
func (w *Watchdog) Step(turn ...loop.Step) loop.Verdict {
	if w == nil || w.disabled {
		return loop.Verdict{Advice: loop.Go}
	}
	l := w.looper()
	v, trips := l.step(turn)
	if v.New {
		w.Progress()
	} else {
		w.Activity()
	}
	if trips {
		w.looped(v)
	}
	return v
}

// step feeds the detector, and reports whether what it found is a trip.
func (l *looper) step(turn []loop.Step) (v loop.Verdict, trips bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v = l.detector.Step(turn...)
	switch {
	case v.Advice == loop.Go:
		return v, false
	case v.Advice == loop.End && v.Rule == loop.Fuse:
		l.fused++
		trips = !l.asked && l.fused == 1 || l.fused > fusePatience
	case v.Advice == loop.End:
		trips = true
	default:
		trips = !l.asked
	}
	l.asked = true
	return v, trips
}

// delivered notes that the host has taken a directive.
func (w *Watchdog) delivered(d *Directive) {
	if d.Reason != LoopDetected || d.Kind == DirectiveCancel {
		return
	}
	l := w.looper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked { // the first of its readers
		l.asked = false
		l.detector.Delivered()
	}
}

// looper returns the run's, made at the first step.
func (w *Watchdog) looper() *looper {
	a := w.accountOf()
	w.mu.Lock()
	defer w.mu.Unlock()
	more := w.extras()
	if more.looper == nil {
		detector, _ := loop.New(w.loop) // the config was checked
		more.looper = &looper{detector: detector}
		a.book.mu.Lock()
		a.spend.AddLimits([]verdict.CountLimit{{CountID: verdict.CountID{Kind: verdict.KindLoop}, Max: verdict.Endless}})
		a.book.mu.Unlock()
		w.seen.Spend = a.spend
		if !w.pollOnly || len(w.limits.Ladders.List(verdict.Loop)) > 0 {
			w.heed() // progress puts the ladder back
		}
	}
	return more.looper
}

// looped has a loop that was found judged.
func (w *Watchdog) looped(v loop.Verdict) {
	a := w.accountOf()
	a.book.mu.Lock()
	look := a.spend.Looped(int64(v.Rounds), fmt.Sprintf("%s/%d/%s", v.Rule, v.Period, v.Pattern), v.Advice == loop.Ask)
	a.book.mu.Unlock()
	if look {
		w.lookAround()
	}
}
