package watchdog

import (
	"fmt"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/loop"
)

// fusePatience is how many turns the fuse may blow before the next rung of the ladder, without one that is new.
const fusePatience = 8

// A looper finds out whether a run repeats itself.
type looper struct {
	mu       sync.Mutex
	detector *loop.Detector
	asked    bool // the host was asked to stop it, and has not taken that yet
	fused    int  // how many turns that were not new the fuse has blown

	changed  bool      // since it was recorded
	pressing bool      // the host was asked something, or has taken that, since it was recorded
	recorded time.Time // when; the beginning at first
}

// Step tells of one turn of the agent: the calls of tools that it made at once, with what came back. It is activity,
// and progress if it did something new, or something old that had another outcome.
//
// A run that does the same again and gets the same, see package loop, is asked to stop that, with [DirectiveUnstuck]
// and the reason [LoopDetected]; one that goes on with it after the host has taken the directive from [Watchdog.Poll],
// [Watchdog.Pending] or [Watchdog.Subscribe] is ended. [Ladders].Loop asks for something else. Steps count for the run
// that they are told to, and not for those around a layer.
//
// Nothing of them is kept but digests, at most 8 KiB. With the [Keeper] of package session they are in the run's row:
// after a crash what was new for a tenth of the keeper's Threshold is forgotten. With a Store alone they are in an
// [EventCheckpoint]: one that is written while the run tells of steps, in the background and at most once a minute, and
// when a loop was found or [Watchdog.Close] is called. A crash then forgets the steps of the last minute, and may
// forget that the host took a directive, which is asked again. With PollOnly steps are recorded with what else the run
// records, and by Close. What cannot be recorded is not tried again before the next minute. A resumed run, a layer and
// a run without a Store begin anew.
//
// It returns what was found; the run has been asked or ended by then. It never waits for the store, except with
// PollOnly for the record of what was found, at most the record timeout. On a nil Watchdog, and if the run is disabled,
// nothing is found.
func (w *Watchdog) Step(turn ...loop.Step) loop.Verdict {
	if w == nil || w.r.disabled {
		return loop.Verdict{Advice: loop.Go}
	}
	l := w.r.looper()
	v, trips, another := l.step(turn)
	if v.New {
		w.Progress()
	} else {
		w.Activity()
	}
	if trips {
		w.r.looped(v, another)
	}
	w.r.recordSteps()
	return v
}

// step feeds the detector, and reports whether what it found is a trip, and whether of another loop than the last.
func (l *looper) step(turn []loop.Step) (v loop.Verdict, trips, another bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v = l.detector.Step(turn...)
	l.changed = true
	defer func() { l.pressing = l.pressing || trips }()
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
func (r *run) delivered(d *Directive) {
	if d.Reason != LoopDetected || d.Kind == DirectiveCancel {
		return
	}
	l := r.looper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked { // the first of its readers
		l.asked, l.changed, l.pressing = false, true, true
		l.detector.Delivered()
	}
}

// looper returns the run's, made at the first step.
func (r *run) looper() *looper {
	a := r.accountOf()
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	more := r.extras()
	if more.looper == nil {
		var config loop.Config
		if r.loop != nil {
			config = *r.loop
		}
		detector, _ := loop.New(config) // it was checked
		more.looper = &looper{detector: detector, recorded: clocks.Now(r.tree.clock.other)}
		a.Spend.AddLimits([]verdict.CountLimit{{CountID: verdict.CountID{Kind: verdict.KindLoop}, Max: verdict.Endless}})
		r.node.Count(&a.Account)
		r.node.Heed() // a directive stands until there is progress
	}
	return more.looper
}

// looped has a loop that was found judged. Another one begins the ladder again.
func (r *run) looped(v loop.Verdict, another bool) {
	a := r.accountOf()
	var k work
	r.locked(func() {
		if a.Spend.Looped(int64(v.Rounds), fmt.Sprintf("%s/%d/%s", v.Rule, v.Period, v.Pattern), another) {
			a.look(&k)
		}
	})
	k.doAll(r.tree)
}

// stepsPace is how often what a run remembers of its steps is recorded at most, unless that presses.
const stepsPace = time.Minute

// take returns the state to be recorded now.
func (l *looper) take(now time.Time) (state []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed, l.pressing, l.recorded = false, false, now
	state, _ = l.detector.MarshalBinary() // never fails
	return state
}

// notRecorded notes that the store did not take the state, if there was one.
func (l *looper) notRecorded(state []byte) {
	if l == nil || state == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changed = true
}

// isDue reports whether there is something new that is to be recorded.
func (l *looper) isDue(now time.Time, closing bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed && (closing || l.pressing || now.Sub(l.recorded) >= stepsPace)
}

// recordsSteps returns what finds loops, if its state is recorded with the events: nil for a layer, and if a keeper has
// it.
func (r *run) recordsSteps() *looper {
	if r.node.Begins {
		return nil
	}
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	if r.more == nil || r.more.keeper != nil {
		return nil
	}
	return r.more.looper
}

// stepsDue reports whether the state is to be recorded now.
func (r *run) stepsDue() bool {
	l := r.recordsSteps()
	return l != nil && l.isDue(clocks.Now(r.tree.clock.other), false)
}

// recordSteps has the state recorded in the background, if that is due.
func (r *run) recordSteps() {
	if !r.tree.inline && r.stepsDue() {
		r.checkpointAside()
	}
}

// closeSteps has the state recorded, for at most limit.
func (r *run) closeSteps(limit time.Duration) {
	l := r.recordsSteps()
	r.tree.mu.Lock()
	over := r.complete || r.stop != nil
	r.tree.mu.Unlock()
	if l == nil || over || !l.isDue(time.Time{}, true) {
		return
	}
	l.mu.Lock()
	l.pressing = true
	l.mu.Unlock()
	r.writeCheckpoint(limit)
}

// restoreSteps has the run remember what it did before in this window.
func (r *run) restoreSteps() {
	p := r.takeSteps()
	if p != nil && !r.disabled && time.Time(p.SessionStartedAt).Equal(r.node.StartedAt) {
		r.restoreLoop(p.Steps)
	}
}

// restoreLoop has the run remember what it did before.
func (r *run) restoreLoop(state []byte) {
	l := r.looper()
	l.mu.Lock()
	err := l.detector.UnmarshalBinary(state)
	l.mu.Unlock()
	if err != nil {
		r.tree.callLogSince(clocks.Now(r.tree.clock.other), func() {
			r.log().Warn("what a run did before is not known, and a loop is found later", "run", r.node.Run, "error", err)
		})
		return
	}
	r.locked(r.node.RestoreLoop)
}
