package watchdog

import (
	"fmt"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/driver"
	"github.com/seed62658d38/watchdog/internal/looper"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/loop"
)

// Step tells of one turn of the agent: the calls of tools that it made at once, with what came back. It is activity,
// and progress if it did something new, or something old that had another outcome.
//
// A run that does the same again and gets the same, see package loop, is asked to stop that, with [DirectiveUnstuck]
// and the reason [LoopDetected]; one that goes on with it after the host has taken the directive from [Watchdog.Poll],
// [Watchdog.Pending] or [Watchdog.Subscribe], or after 32 turns if it takes none, is ended. [Ladders].Loop asks for
// something else. Also a loop that package loop ends without asking, by [loop.Config].Waits, is asked about; eight more
// turns of it are the end, whether the host has taken that or not. A step of class [loop.Person] is progress, and
// nothing that was done before it counts any more.
//
// Each run has a detector of its own, and so has each layer: steps count for the one that they are told to, and not for
// those around it. Give sub-agents that work at the same time a layer each, see [Watchdog.Layer], and tell it of their
// steps: in one detector, several that read the same look like one that repeats itself.
//
// Nothing of them is kept but digests, at most 8 KiB. With the [Keeper] of package session they are in the run's row:
// after a crash what was new for a tenth of the keeper's Threshold is forgotten. A run without a Keeper, a resumed run
// and a layer begin anew.
//
// It returns what was found; the run has been asked or ended by then. It never waits for the store, except with
// PollOnly for the record of what was found, at most the record timeout. On a nil Watchdog, and if the run is disabled,
// nothing is found.
func (w *Watchdog) Step(turn ...loop.Step) loop.Verdict {
	if w == nil || w.r.Node.Disabled {
		return loop.Verdict{Advice: loop.Go}
	}
	r := &w.r
	if r.beginsWithPerson(turn) {
		w.Progress()
		return loop.Verdict{Advice: loop.Go, New: true}
	}
	v, trips, another := r.looper().Step(turn)
	if v.New {
		w.Progress()
	} else {
		w.Activity()
	}
	if trips {
		r.looped(v, another)
	}
	return v
}

// beginsWithPerson reports whether a person says something in a run that has done nothing yet: it needs no detector for
// that, nor a record of one.
func (r *run) beginsWithPerson(turn []loop.Step) bool {
	if len(turn) != 1 || turn[0].Class != loop.Person {
		return false
	}
	r.Lock()
	defer r.Unlock()
	if r.more != nil && r.more.looper != nil {
		return false
	}
	r.extras().persons++
	return true
}

func (r *run) delivered(d *Directive) {
	if d.Reason == LoopDetected && d.Kind != DirectiveCancel {
		r.looper().Delivered()
	}
}

// A stepper is a [looper.Looper]. What a run has of other packages by its type is linked with every run, and only who
// calls [Watchdog.Step] needs a detector.
type stepper interface {
	Step(turn []loop.Step) (v loop.Verdict, trips, another bool)
	Delivered()
	Persons() int
	State() []byte
	Restore(state []byte) error
}

// looper returns the run's, made at the first step.
func (r *run) looper() stepper {
	a := r.accountOf()
	r.Lock()
	defer r.Unlock()
	more := r.extras()
	if more.looper == nil {
		more.looper = looper.New(r.loop, clocks.Now(r.Tree.Clock))
		a.Spend.CountLoops()
		r.Node.Count(&a.Account)
		r.Node.Heed() // a directive stands until there is progress
	}
	return more.looper
}

// looped has a loop that was found judged. Another one begins the ladder again.
func (r *run) looped(v loop.Verdict, another bool) {
	a := r.accountOf()
	s := verdict.Signal{
		Kind: verdict.SignalLoop, Key: fmt.Sprintf("%s/%d/%s", v.Rule, v.Period, v.Pattern), Count: int64(v.Rounds),
	}
	if another {
		s.Rung = 1
	}
	var k driver.Work
	r.Locked(func() {
		r.extras().loop = v.String()
		look := a.Spend.Looped(s.Count, s.Key, another)
		a.traceCall(&k, &r.Node, s, "")
		if look {
			a.look(&k)
		}
	})
	k.DoAll(r.Tree)
}

func (r *run) restoreLoop(state []byte) {
	err := r.looper().Restore(state)
	if err != nil {
		r.LogSince(clocks.Now(r.Tree.Clock), func() {
			r.log().Warn("what a run did before is not known, and a loop is found later", "run", r.Node.Run, "error", err)
		})
		return
	}
	r.Locked(r.Node.RestoreLoop)
}
