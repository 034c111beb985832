package watchdog

import (
	"fmt"
	"sync"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
	"github.com/seed62658d38/watchdog/oracle/frozen/loop"
)

// fusePatience is how many turns the fuse may blow before the next rung of the ladder, without one that is new.
const fusePatience = 8

// A looper finds out whether a run repeats itself.
type looper struct {
	mu       sync.Mutex
	detector *loop.Detector
	asked    bool // the host was asked to stop it, and has not taken that yet
	fused    int  // how many turns that were not new the fuse has blown
}

// Step tells of one turn of the agent: the calls of tools that it made at once, with what came back. It is activity,
// and progress if it did something new, or something old that had another outcome.
//
// A run that does the same again and gets the same, see package loop, is asked to stop that, with [DirectiveUnstuck]
// and the reason [LoopDetected]; one that goes on with it after the host has taken the directive from [Watchdog.Poll],
// [Watchdog.Pending] or [Watchdog.Subscribe] is ended. [Ladders].Loop asks for something else. Steps count for the run
// that they are told to, and not for those around a layer.
//
// Nothing of them is kept but digests, and those in memory, with the [Keeper] of package session also in the run's row:
// then a restart forgets nothing, or after a crash what was new for a tenth of the keeper's Threshold. No event has
// them. Without that keeper, also with a Store, an attach looks for loops anew, and asks about one again.
//
// It returns what was found; the run has been asked or ended by then. It never waits for the store, except with
// PollOnly for the record of what was found, at most the record timeout. On a nil Watchdog, and if the run is disabled,
// nothing is found.
func (w *Watchdog) Step(turn ...loop.Step) loop.Verdict {
	if w == nil || w.disabled {
		return loop.Verdict{Advice: loop.Go}
	}
	l := w.looper()
	v, trips, another := l.step(turn)
	if v.New {
		w.Progress()
	} else {
		w.Activity()
	}
	if trips {
		w.looped(v, another)
	}
	return v
}

// step feeds the detector, and reports whether what it found is a trip, and whether of another loop than the last.
func (l *looper) step(turn []loop.Step) (v loop.Verdict, trips, another bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v = l.detector.Step(turn...)
	if v.Rule != loop.Fuse {
		l.fused = 0
	}
	switch {
	case v.Advice == loop.Go:
		return v, false, false
	case v.Rule == loop.Fuse && v.New:
		return v, false, false // the run does something else, and the fuse remembers what it did before
	case v.Rule == loop.Fuse:
		l.fused++
		another = l.fused == 1 && !l.asked
		trips = another || l.fused > fusePatience
	case v.Advice == loop.Ask:
		trips = !l.asked
		another = trips
	default:
		trips = true
	}
	l.asked = true
	return v, trips, another
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
		var config loop.Config
		if w.loop != nil {
			config = *w.loop
		}
		detector, _ := loop.New(config) // it was checked
		more.looper = &looper{detector: detector}
		a.in.lock()
		a.Spend.AddLimits([]verdict.CountLimit{{CountID: verdict.CountID{Kind: verdict.KindLoop}, Max: verdict.Endless}})
		a.in.unlock()
		w.seen.Spend = a.Spend
		w.heed() // a directive stands until there is progress
	}
	return more.looper
}

// looped has a loop that was found judged. Another one begins the ladder again.
func (w *Watchdog) looped(v loop.Verdict, another bool) {
	a := w.accountOf()
	a.in.lock()
	look := a.Spend.Looped(int64(v.Rounds), fmt.Sprintf("%s/%d/%s", v.Rule, v.Period, v.Pattern), another)
	a.in.unlock()
	if look {
		a.look(clocks.Now(w.clock.other))
	}
}
