package watchdog

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// A given directive stands on its ladder until there is progress. Progress, and the end of a hold, are recorded once
// they put a ladder back, so that the ladder survives a restart.
type given struct {
	id   string // of its event
	rung int
	on   fold.Key
	hold verdict.HoldID
	at   time.Duration
}

// ladderOf is the ladder that the trip of a verdict is on, of a counted limit if it has a usage.
func ladderOf(v verdict.Verdict, u *Usage) fold.Key { return fold.KeyOf(v.Limit, v.Hold, u.recorded()) }

// countKey names a counted limit of a run.
func countKey(u *Usage) fold.Key { return fold.CountKey(u.Limit, u.Tool, u.Scope) }

// noteGiven notes that a directive was given, at the instant that was judged. A wait that comes again on the last rung
// takes the place of the one before, whose ID is returned, so that a run that waits often keeps one. The caller holds
// mu.
func (w *Watchdog) noteGiven(id string, v verdict.Verdict, at time.Duration) (replaces []string) {
	if v.Directive == verdict.DirectWrapUp || v.Directive == verdict.DirectCancel {
		return nil
	}
	more, on := w.extras(), ladderOf(v, w.usage(v))
	if v.Last {
		replaces = more.takeGiven(func(g given) bool { return g.on == on && g.rung >= v.Rung })
	}
	more.given = append(more.given, given{
		id: id, rung: v.Rung, on: on, hold: verdict.HoldID{Key: v.Hold, Serial: v.HoldSerial}, at: at,
	})
	w.awaitProgress()
	return replaces
}

// awaitProgress has the next progress set the timer, if it puts a ladder back. The caller holds mu.
func (w *Watchdog) awaitProgress() {
	if pulse := w.pulse.Load(); pulse != nil {
		pulse.awaited.await(resets, w.more != nil && len(w.more.given) > 0)
	}
}

// awaitSign has the next sign set the timer that ends a stretch in which nothing more is asked. The caller holds mu.
func (w *Watchdog) awaitSign(v verdict.Verdict) {
	switch pulse := w.pulse.Load(); {
	case pulse == nil || !v.Last:
	case v.Limit == verdict.Idle:
		pulse.awaited.await(anySign, true)
	case v.Limit == verdict.NoProgress:
		pulse.awaited.await(someProgress, true)
	}
}

// resetLadders has it recorded that progress put the ladders back to their first rungs, once. The caller holds mu.
func (w *Watchdog) resetLadders() {
	if w.more == nil || len(w.more.given) == 0 || w.seen.Signs == nil || !w.seen.Signs.Progressed {
		return
	}
	progress := w.seen.Signs.Progress
	reset := w.more.takeGiven(func(g given) bool { return g.at <= progress })
	w.awaitProgress()
	if len(reset) == 0 {
		return
	}
	at := record.Stamp(w.clock.now())
	w.recordSoon(&entry{}, EventProgress, func() Event {
		return w.newEvent(EventProgress, time.Time(at), "", record.Progress{
			SessionStartedAt: record.Stamp(w.startedAt), ProgressedAt: at, Resets: reset,
			Parent: w.lineage.parent(), Window: w.lineage.fresh(),
		})
	})
}

// rememberProgress has the last progress of a run that ends recorded. The caller holds mu.
func (w *Watchdog) rememberProgress() {
	if w.more != nil && len(w.more.given) > 0 {
		w.takePulse(w.clock.elapsed())
		w.resetLadders()
	}
}

// takeGiven removes the directives that do not count any more, and returns the IDs of their events.
func (x *extras) takeGiven(done func(given) bool) (ids []string) {
	x.given = slices.DeleteFunc(x.given, func(g given) bool {
		if done(g) {
			ids = append(ids, g.id)
			return true
		}
		return false
	})
	return ids
}

// recordSoon has an event recorded by whoever looked, or at the next poll, as the entry. The caller holds mu.
func (w *Watchdog) recordSoon(e *entry, what string, event func() Event) *entry {
	e.make = func() []Event { return []Event{event()} }
	e.failed = func(err error) {
		w.log().Error("watchdog could not record an event", "run", w.id, "event", what, "error", err)
	}
	w.recorder.put(e)
	w.extras().due = append(w.more.due, e)
	return e
}

// takeDue is what a look has to record besides what it found. The caller holds mu.
func (w *Watchdog) takeDue() []*entry {
	if w.more == nil {
		return nil
	}
	due := w.more.due
	w.more.due = nil
	return due
}

// restoreLadders puts the ladders where the window's events say that they stand. The caller holds mu.
func (w *Watchdog) restoreLadders(found *fold.Window) {
	for id, d := range found.Standing() {
		more := w.extras()
		more.given = append(more.given, given{
			id: id, rung: d.Rung, on: d.On, hold: verdict.HoldID{Key: d.On.Of}, at: w.seen.Attached,
		})
	}
	if w.more == nil {
		return
	}
	w.awaitProgress()
	for _, limit := range [...]verdict.Limit{verdict.Idle, verdict.NoProgress} {
		if rung := w.more.rungOf(fold.Key{Limit: limit}); rung > 0 {
			w.signalTaken(Signal{Kind: SignalRung, Key: string(limit), Rung: rung})
		}
	}
}

// rungOf is where a ladder stands.
func (x *extras) rungOf(on fold.Key) (rung int) {
	if x == nil {
		return 0
	}
	for _, g := range x.given {
		if g.on == on {
			rung = max(rung, g.rung)
		}
	}
	return rung
}
