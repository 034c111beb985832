package watchdog

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/pending"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// pauseClock has the wall clock stand still for a hold that was opened just now, and has that recorded. The pause is in
// whole microseconds as its event has it: what this process counts is what the store says. The caller holds mu.
func (w *Watchdog) pauseClock(key, layer string, limit time.Duration) (*verdict.Pause, *pending.State) {
	p := &verdict.Pause{
		ID: record.EventID("", "", "", ""), Opened: w.clock.elapsed().Truncate(time.Microsecond),
		Cap: limit.Truncate(time.Microsecond),
	}
	at := w.clock.now()
	opening := w.recordSoon(&entry{State: pending.State{Opens: true}}, EventHold, func() Event {
		event := w.newEvent(EventHold, at, "", record.Hold{
			Hold: key, SessionStartedAt: record.Stamp(w.startedAt), OpenedAt: record.Stamp(at),
			OpenedSeconds: record.ExactSeconds(p.Opened), CapSeconds: record.FloatSeconds(p.Cap), Layer: layer,
			Parent: w.lineage.parent(), Window: w.lineage.fresh(),
		})
		event.ID = p.ID
		return event
	})
	w.signalTaken(Signal{Kind: SignalPause, Key: p.ID, From: p.Opened, Length: p.Cap})
	w.signs().Pauses.TakeOver(p.ID)
	w.pauseLayers(*p)
	return p, &opening.State
}

// pauseLayers has the layers of a session stand still with it: what is left of a layer is left of its run. A layer that
// stands still for a hold of its own has both pauses, which overlap. A layer's pause is one of the session, too, which
// does it for all. The caller holds mu.
func (w *Watchdog) pauseLayers(p verdict.Pause) {
	if w.outer == nil {
		w.eachLayer(func(layer *Watchdog) { layer.pauseWith(p, w) })
	}
}

// pauseWith has a layer stand still with a run around it, unless the pause is over by its beginning. The caller holds
// mu.
func (w *Watchdog) pauseWith(p verdict.Pause, around *Watchdog) {
	began := around.clock.elapsed() - w.clock.elapsed()
	from, to := max(p.Opened-began, w.seen.Attached), p.Opened+p.Cap-began
	if from < to {
		w.signalTaken(Signal{Kind: SignalPause, Key: p.ID, From: from, Length: to - from})
	}
}

// leaveReleased has those called who wait for the end of a pause. The caller holds mu.
func (w *Watchdog) leaveReleased() {
	if w.more != nil {
		w.mu.left = append(w.mu.left, w.more.released...)
		w.more.released = nil
	}
}

// releaseLayers ends a pause that layers have with their session, at an instant of that. The caller holds mu.
func (w *Watchdog) releaseLayers(id string, at time.Duration) {
	if w.outer != nil {
		return
	}
	w.eachLayer(func(layer *Watchdog) {
		if _, paused := layer.signs().Pauses.Find(id); paused {
			began := w.clock.elapsed() - layer.clock.elapsed()
			layer.signalTaken(Signal{Kind: SignalUnpause, Key: id, From: at - began})
			layer.lookSoon()
		}
	})
}

// pauseWithRun has a layer that begins while the run around it stands still do so, too. The caller holds mu.
func (w *Watchdog) pauseWithRun() {
	session := w.session() // differs: it had the pauses of the layer around it, too, which nobody released
	if session.seen.Signs == nil {
		return
	}
	for _, p := range session.seen.Signs.Pauses.Open(session.clock.elapsed()) {
		w.pauseWith(p, session)
	}
}

// releaseEvent ends the pause of a hold that was closed just now, and has that recorded, if events tell of it. The
// caller holds mu.
func (w *Watchdog) releaseEvent(id verdict.HoldID, pause *verdict.Pause, opening *pending.State) {
	var resets []string
	if w.more != nil {
		resets = w.more.takeGiven(func(g given) bool { return g.on.Limit == verdict.Hold && g.hold == id })
	}
	if pause == nil && len(resets) == 0 {
		return
	}
	at, elapsed := w.clock.now(), w.clock.elapsed().Truncate(time.Microsecond)
	payload := record.Release{
		Hold: id.Key, SessionStartedAt: record.Stamp(w.startedAt), ReleasedAt: record.Stamp(at),
		ReleasedSeconds: record.ExactSeconds(elapsed), Resets: resets, Parent: w.lineage.parent(), Window: w.lineage.fresh(),
	}
	name := "" // an event of its own
	if pause != nil {
		payload.Opening, name = pause.ID, pause.ID
	}
	w.recordSoon(&entry{State: pending.State{Closes: pause != nil, Opening: opening}}, EventRelease, func() Event {
		return w.newEvent(EventRelease, at, name, payload)
	})
	if pause != nil {
		w.signalTaken(Signal{Kind: SignalUnpause, Key: pause.ID, From: elapsed})
		w.signs().Pauses.TakeOver(pause.ID)
		w.releaseLayers(pause.ID, elapsed)
	}
}

// learnPauses counts what the store has of the pauses of other processes, as it has it: otherwise a trip that yields to
// it would do so for ever. The caller holds mu.
func (w *Watchdog) learnPauses(stored []verdict.Pause) {
	if len(stored) == 0 {
		return
	}
	pauses := &w.signs().Pauses
	for _, p := range pauses.News(stored) {
		if _, opened := pauses.Find(p.ID); !opened {
			w.signalTaken(Signal{Kind: SignalPause, Key: p.ID, From: p.Opened, Length: p.Cap})
			w.pauseLayers(p)
		}
		if p.Closed {
			w.signalTaken(Signal{Kind: SignalUnpause, Key: p.ID, From: p.Released})
			w.releaseLayers(p.ID, p.Released)
			w.releaseRestored(p.ID)
		}
	}
}

// releaseRestored closes the hold of a pause here, which its own process has closed, unless it was taken over. The
// caller holds mu.
func (w *Watchdog) releaseRestored(pause string) {
	for _, owner := range w.signs().Holds.Owners() {
		if h := owner.(*Hold); h.restored && h.pause.ID == pause {
			w.signalTaken(Signal{Kind: SignalRelease, Key: h.id.Key, Serial: h.id.Serial})
			h.closed = true
		}
	}
}

// leftOpen is the pause of the hold whose cap was exceeded, if another process opened it and nobody took it over: that
// process may live and have closed it. The caller holds mu.
func (w *Watchdog) leftOpen(v verdict.Verdict) (pause string) {
	if v.Limit != verdict.Hold {
		return ""
	}
	open := w.signs().Holds.Find(verdict.HoldID{Key: v.Hold, Serial: v.HoldSerial})
	if open == nil {
		return ""
	}
	if h := open.Owner.(*Hold); h.restored {
		return h.pause.ID
	}
	return ""
}

// restoreHolds takes up the holds that the events say are open: the process that opened them is gone, and whoever opens
// one with the same key takes it over. Those of layers may be of a process that lives: they stop the wall clock until
// their cap, or until a layer opens one with the key again, and hold nothing else. The caller holds mu.
func (w *Watchdog) restoreHolds(found *fold.Window) {
	for _, p := range found.Pauses() {
		w.learnPauses([]verdict.Pause{p.Pause})
		switch id := (verdict.HoldID{Key: p.Hold}); {
		case p.Closed:
		case p.Layer != "":
			w.extras().left = append(w.more.left, p)
		case !w.signs().Held(id):
			h := &Hold{w: w, id: id, pause: &p.Pause, restored: true}
			w.signalTaken(Signal{
				Kind: SignalHeld, Key: id.Key, From: p.Opened, Length: p.Cap,
				Rung: w.more.rungOf(fold.KeyOf(verdict.Hold, id.Key, nil)),
			})
			w.signs().Holds.Find(id).Owner = h
		}
	}
}

// takeLeft ends the pauses of a layer's hold with the key that a process left which is gone: the hold is opened again.
// The caller holds mu.
func (w *Watchdog) takeLeft(key string) {
	if w.more == nil {
		return
	}
	w.more.left = slices.DeleteFunc(w.more.left, func(p fold.Pause) bool {
		if p.Hold == key {
			w.releaseEvent(verdict.HoldID{Key: key}, &p.Pause, nil)
		}
		return p.Hold == key
	})
}
