package watchdog

import (
	"context"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// Where a run stands. Nothing outside of this file changes it.
//
//	         New, Resume
//	              │
//	              ▼    another process extended the window, or Complete was not recorded
//	┌────────  running  ◀──────────────────────────────┐
//	│             │                                    │
//	│ Close       │ a limit was exceeded, Cancel,      │
//	│ Interrupt   ▼ or Complete                        │
//	│ parent   recording  ─────────────────────────────┘
//	│ Sync        │
//	│             │ the store has the event, or did not take a stop in time
//	▼             ▼
//	     ended  ◀──── New, of a window that has its stop already
//
// The first cause wins: each arrow is taken under mu, once, and whoever looks afterwards sees the same stop or the same
// cause. While a stop is recorded no lock is held; who wants to end the run meanwhile waits for trip.done.
//
// The order of the locks. Who holds one may take those below it, and none of another session:
//
//	Watchdog.mu        where the session and its layers stand, their clocks, what they have seen
//	  sessionLedger.mu what the session and its layers have charged
//	    sharedLimit.mu what this process holds of a limit that is kept in a store, in the order of their numbers
//	  readers.mu       who is to be told of directives
//	  recorder.mu      what the store does not have yet
//	  retries.mu       which runs their stores are asked again for
//	  alarm.Queue.mu   the timer of all runs, and that of retriers
//	  trace.mu         what the host's OnSignal is still to be told
//	digests.mu         the digests of progress; alone
//	spendShares.mu     which limits of scopes runs of this process share; alone
//
// The host's code (callbacks, loggers, hooks, stores) runs under none of them. Its clock and its parent context are
// read under mu.
type phase uint8

const (
	running   phase = iota
	recording       // a limit was exceeded or the work is done, the event of that is being written
	ended           // fired, complete, closed, interrupted, or ended by its parent
)

// A trip is a limit that was found exceeded, another guard's cancel, or that the work is done: the run's end is decided
// and not yet recorded.
type trip struct {
	verdict verdict.Verdict // without a limit if another guard decided
	reason  string
	at      time.Time
	elapsed time.Duration // of the window
	paused  time.Duration // of that
	pauses  *verdict.Pauses
	note    string
	usage   *Usage            // of a counted limit
	command record.CommandEnd // of a run that is complete
	left    string            // the pause of a hold that another process left open and whose cap was exceeded
	// meanwhile is what was traced since, for when the run goes on: a trace ends where the run's end was decided.
	meanwhile []Signal
	// done is closed when the trip is over: the run has its end, or runs on because it was given more time.
	done chan struct{}
}

// takeUp puts a new watchdog where its window stands.
func (w *Watchdog) takeUp(found fold.Window, at time.Time) {
	w.startedAt = found.StartedAt
	w.clock = newRunClock(w.clock.other, at, at.Sub(found.StartedAt))
	w.seen.Attached = max(at.Sub(found.StartedAt), 0)
	w.seen.Extended = found.Extended
	budget := verdict.Sum(w.limits.WallClock, found.Extended)
	w.seen.Warned = found.WarnedOf(fold.Key{}, w.limits.WarnAt, budget.Seconds())
	w.seen.Wrapped = found.WrappedUp(fold.Key{}, budget.Seconds())
	w.restoreSpend(&found)
	w.mu.Lock()
	defer w.unlock()
	w.traceAt(Signal{
		Kind: SignalAttach, At: w.seen.Attached, Length: w.seen.Extended, Warned: w.seen.Warned, Wrapped: w.seen.Wrapped,
	})
	if found.Stop == nil {
		w.restoreLadders(&found)
		w.restoreHolds(&found)
	}
	if found.Stop != nil {
		w.stop = stopOf(found.Stop, w.id)
		w.phase = ended
		w.cancel(w.stop)
	}
}

// deliverTrace tells the host what was traced. The caller holds no lock.
func (w *Watchdog) deliverTrace() {
	if w.trace != nil {
		w.trace.deliver(w.session()) // differs: a panic of OnSignal is logged with the session
	}
}

// decide makes the verdict the run's end: from here on nothing else can end it. The caller holds mu.
func (w *Watchdog) decide(v verdict.Verdict, reason string, elapsed time.Duration) *trip {
	t := w.beginTrip(elapsed)
	t.verdict, t.reason, t.left, t.usage = v, reason, w.leftOpen(v), w.usage(v)
	return t
}

// beginTrip decides that the run ends, of which that much has elapsed. The caller holds mu.
func (w *Watchdog) beginTrip(elapsed time.Duration) *trip {
	w.phase = recording
	w.dropInquiry()
	w.quietUntil.Store(0)
	w.trip = &trip{
		at: record.Truncate(w.clock.now()), elapsed: elapsed, paused: verdict.Paused(w.seen, elapsed),
		pauses: w.seen.KnownPauses(), note: w.LastNote(), done: make(chan struct{}),
	}
	return w.trip
}

// decideComplete makes it the run's end that its work is done, nil if it has ended. It waits for a stop that is being
// recorded. If more tries have failed than before, it returns the error of the last.
func (w *Watchdog) decideComplete(before int) (t *trip, err error) {
	w.whileRunning(func() {
		if failed := w.failed(); failed.tries > before {
			err = failed.err
			return
		}
		t = w.beginTrip(w.clock.elapsed())
		t.command = w.commandEnd()
	})
	return t, err
}

// carryOutComplete records that the work is done and then ends the run. If that cannot be recorded, the run goes on.
func (w *Watchdog) carryOutComplete(t *trip, n *news) error {
	known, err := fold.Window{}, errStoreExited
	defer func() { // also if the store ends this goroutine
		if err != nil {
			w.noteFailed(err)
		}
		w.conclude(t, &known, n)
	}()
	known, err = w.recordComplete(w.completeEvent(t))
	return err
}

// endAndTell carries the trip out and tells the host, on a goroutine that nobody waits for.
func (w *Watchdog) endAndTell(t *trip) {
	n := &news{}
	defer w.tellHost(n)
	w.carryOut(t, n)
}

// carryOut records the trip and then ends the run, whatever the store says. What the host is to be told is left to the
// caller: its code may block, and must hold up no run's end.
func (w *Watchdog) carryOut(t *trip, n *news) { w.carryOutWithin(t, w.recorder.timeout, n) }

// carryOutWithin is carryOut with no more than limit of the timeout left.
func (w *Watchdog) carryOutWithin(t *trip, limit time.Duration, n *news) {
	event, own := w.cancelEvent(t)
	known, err := fold.Window{}, errStoreExited
	defer func() { w.carriedOut(t, event, own, known, err, n) }() // also if the store ends this goroutine
	known, err = w.recordTrip(t, event, own, limit)
}

// carriedOut ends the run of a trip whose record was tried, and keeps an event that the store did not take.
func (w *Watchdog) carriedOut(t *trip, event Event, own *record.Cancel, known fold.Window, err error, n *news) {
	if err != nil {
		known = fold.Window{Stop: own}
		w.recorder.keep(err, event)
	}
	w.conclude(t, &known, n)
	n.stopErr = err
}

// conclude makes what the store knows of the window what every reader sees, at once. The subscribers that are to be
// told of a stop, and what is traced meanwhile, are left to the caller: whoever waits for the trip must not wait for
// the host.
func (w *Watchdog) conclude(t *trip, known *fold.Window, n *news) {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer close(t.done)
	switch {
	case known.Complete():
		w.endComplete()
	case known.Stop != nil:
		asleep, stop := w.endStopped(known.Stop)
		n.asleep, n.stop = append(n.asleep, asleep...), stop
	default: // given more time by another process, or not complete after all
		w.phase, w.trip = running, nil
		w.traceAt(t.meanwhile...)
		w.learnPauses(known.Paused())
		w.takeExtensions(known)
		w.endWithParent() // which may have told of its end meanwhile, and tells nobody twice
	}
	w.trip = nil
}

// endComplete ends the run as complete. The caller holds mu.
func (w *Watchdog) endComplete() {
	w.complete = true
	w.end(ErrComplete)
}

// endStopped ends the run with its stop, and returns the subscribers that are to be told of it. The caller holds mu.
func (w *Watchdog) endStopped(by *record.Cancel) (asleep []*subscriber, stop *Stop) {
	w.stop = stopOf(by, w.id)
	asleep = w.enqueueStop()
	w.end(w.stop)
	return asleep, w.stop
}

// endRunning ends the run with the cause unless it has ended, and reports whether it did. What the host is to be told
// is left to the caller.
func (w *Watchdog) endRunning(cause error) (ended bool) {
	return w.whileRunning(func() { w.end(cause) })
}

// whileRunning makes the change, holding mu, unless the run has ended. It waits for a stop that is being recorded. It
// reports whether it made the change. What was traced is left to the caller.
func (w *Watchdog) whileRunning(change func()) (open bool) {
	for {
		w.mu.Lock()
		underway := w.trip
		if open = w.phase == running && !w.endWithParent(); open {
			change()
		}
		w.mu.Unlock()
		if underway == nil {
			return open
		}
		<-underway.done
	}
}

// endWithParent reports whether the parent has ended, and ends a running run with it. The caller holds mu.
func (w *Watchdog) endWithParent() bool {
	switch {
	case w.outer != nil:
		w.outer.endWithParent()
		return w.endWithOuter()
	case w.parent == nil || w.parent.Err() == nil:
		return false
	case w.phase == running:
		w.byParent = true
		w.end(context.Cause(w.parent))
		if w.recordsParent {
			w.recordParentEnd()
		}
	}
	return true
}

// parentEnded reports whether the parent of the session has ended, or the run around a layer.
func (w *Watchdog) parentEnded() bool {
	if w.outer != nil && w.outer.phase == ended {
		return true
	}
	session := w.session()
	return session.parent != nil && session.parent.Err() != nil
}

// endWithOuter reports whether the run around the layer has ended, and ends a running layer with it. The caller holds
// mu.
func (w *Watchdog) endWithOuter() bool {
	if w.outer.phase != ended {
		return false
	}
	if w.phase == running {
		w.byParent = true
		w.end(w.outer.cause())
	}
	return true
}

// endedByParent reports whether the run's end is its parent's. It is remembered, because two causes cannot tell: they
// may be equal, or of a type that cannot be compared.
func (w *Watchdog) endedByParent() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.byParent
}

// end moves a run to its end. The caller holds mu and has seen that it has not ended.
func (w *Watchdog) end(cause error) {
	w.rememberProgress()
	w.traceEnd()
	w.phase = ended
	w.dropInquiry()
	w.disarm()
	w.cancel(cause)
	w.endTries(cause)
	w.closeHolds()
	w.endLayers()
	w.recorder.tryLater() // nobody looks any more for what is due
}

// hasEnded reports whether the run is over. A trip that is being recorded can still be taken back.
func (w *Watchdog) hasEnded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.phase == ended
}

// cause is why the run's context has ended, or is about to.
func (w *Watchdog) cause() error {
	if cause := context.Cause(w.inner); cause != nil {
		return cause
	}
	return context.Canceled
}

// report tells the log of a stop. It skips formatting when Warn is off: ten thousand runs can stop at once.
func (w *Watchdog) report(stop *Stop, recordErr error) {
	log := w.log()
	if !log.Enabled(context.Background(), slog.LevelWarn) {
		return
	}
	if recordErr != nil {
		log.Error("watchdog stopped a run and could not record it", "run", w.id, "reason", string(stop.Code), "error",
			recordErr)
		return
	}
	log.Warn("watchdog stopped a run", "run", w.id, "reason", string(stop.Code), "elapsed", stop.Elapsed, "budget",
		stop.Budget)
}
