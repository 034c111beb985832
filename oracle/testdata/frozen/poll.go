package watchdog

import (
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// findings are what a look asks to be done once the mutex is free. A look that found nothing has none: it is nil.
type findings struct {
	trip       *trip
	warnings   []Warning
	directives []*outgoing
	entries    []*entry // of the warnings and directives
	retrials   []retrial
	inquiry    *inquiry // that the host is to be asked
}

// made returns findings that something can be added to.
func (f *findings) made() *findings {
	if f == nil {
		return &findings{}
	}
	return f
}

// with returns these findings and what is to be recorded besides.
func (f *findings) with(due []*entry) *findings {
	if len(due) == 0 {
		return f
	}
	f = f.made()
	f.entries = append(f.entries, due...)
	return f
}

// and returns these findings and those of the next look.
func (f *findings) and(next *findings) *findings {
	switch {
	case next == nil:
		return f
	case f == nil:
		return next
	case f.trip == nil:
		f.trip = next.trip
	}
	f.warnings, f.directives = append(f.warnings, next.warnings...), append(f.directives, next.directives...)
	f.entries = append(f.entries, next.entries...)
	f.retrials = append(f.retrials, next.retrials...)
	if f.inquiry == nil {
		f.inquiry = next.inquiry
	}
	return f
}

// nothing reports whether there is nothing to record.
func (f *findings) nothing() bool { return f == nil || f.trip == nil && len(f.entries) == 0 }

// asked is the inquiry that the host is to be asked, nil for none.
func (f *findings) asked() *inquiry {
	if f == nil {
		return nil
	}
	return f.inquiry
}

// quiet reports, without a lock, that nothing can have happened since the last look. It only ever does on the machine's
// clock.
func (w *Watchdog) quiet() bool {
	return w.quietUntil.Load() > 0 && w.quietAt(w.clock.base.Since())
}

// quietAt is quiet at a monotonic time since the clock's base.
func (w *Watchdog) quietAt(since time.Duration) bool {
	until := w.quietUntil.Load()
	return until > 0 && int64(since) < until
}

// poll looks at the run and carries out what it finds. It returns the stop once there is one.
func (w *Watchdog) poll() *Stop { return w.pollFor(nil) }

// pollFor is poll for another guard, which adds to what the look found while the mutex is held.
func (w *Watchdog) pollFor(guard func(*findings)) *Stop {
	w.mu.Lock()
	return w.unlockPolled(w.lookFor(guard), guard)
}

// lookFor looks on behalf of a poll. The caller holds mu.
func (w *Watchdog) lookFor(guard func(*findings)) *findings {
	found, _ := w.look()
	if guard != nil && found.asked() == nil {
		found = found.made()
		guard(found)
	}
	return found
}

// unlockPolled does what the look of a poll found, and waits for it. The caller holds mu, which it unlocks.
func (w *Watchdog) unlockPolled(found *findings, guard func(*findings)) *Stop {
	if found == nil && w.caughtUp() { // nearly always
		defer w.mu.Unlock()
		return w.stop
	}
	began := clocks.Now(w.clock.other)
	for first := true; ; first = false {
		stop, underway := w.stop, w.trip
		w.mu.Unlock()
		if first && underway == nil && found.nothing() {
			w.recorder.retry(w.storeContext(), began)
			w.cover()
		}
		if stop != nil { // nothing was found; what the end left to do is for whoever ended the run
			return stop
		}
		told := w.begin(found, began)
		if underway == nil && found.asked() != nil {
			w.awaitAnswer(found.inquiry)
			began = clocks.Now(w.clock.other) // a slow answer is no reason to end the run before the stop is recorded
			w.mu.Lock()
			found = w.lookFor(guard)
			continue
		}
		if underway == nil {
			w.tellSince(began, &news{})
			return nil
		}
		<-underway.done
		w.recorder.awaitSince(began, told)
		w.mu.Lock()
		found = w.lookFor(guard)
	}
}

// calmAt reports that a look before a change would find nothing, and do nothing that the look after it does not. The
// caller holds mu.
func (w *Watchdog) calmAt(now time.Duration) bool {
	return w.phase == running && w.more.calm() && w.quietAt(w.clock.sinceBase(now)) &&
		!w.parentEnded() && w.caughtUp()
}

// calm reports that nothing stands on a ladder or waits to be recorded.
func (x *extras) calm() bool { return x == nil || len(x.given)+len(x.due) == 0 }

// caughtUp reports that a poll which finds nothing has nothing else to do either. The caller holds mu.
func (w *Watchdog) caughtUp() bool {
	return w.trip == nil && !w.recorder.waiting() && !w.trace.waiting() && !w.covers()
}

// doFound does what a look found, and waits for the run's end if that is it. The caller has just unlocked mu.
func (w *Watchdog) doFound(found *findings) {
	if found == nil {
		return
	}
	w.askAside(found.inquiry)
	if found.nothing() && len(found.retrials) == 0 {
		return
	}
	began := clocks.Now(w.clock.other)
	told := w.begin(found, began)
	if found.trip != nil {
		<-found.trip.done
		w.recorder.awaitSince(began, told)
	}
}

// begin begins with what a look found. It makes the caller, who has just unlocked mu, wait for the store and the host
// only if there is no other goroutine: then for the store no longer than the timeout since began. Otherwise it returns
// a channel that is closed when the host was told of a trip, nil if there is none.
func (w *Watchdog) begin(found *findings, began time.Time) (told <-chan struct{}) {
	if found == nil {
		return nil
	}
	found.endTries()
	if w.pollOnly {
		w.doHere(found, began)
		return nil
	}
	if found.trip != nil {
		told = aside(func() { w.endAndTell(found.trip) })
	}
	w.deliver(found)
	return told
}

// doHere ends the run, records the rest in the time that is left, and tells the host last: its code may call the
// watchdog, block, or end this goroutine. So may the store end it.
func (w *Watchdog) doHere(found *findings, began time.Time) {
	n := &news{warnings: found.warnings}
	defer w.tellHost(n)
	defer func() { n.recorded(w, found) }()
	if len(found.entries) > 0 {
		defer func() { w.recorder.appendPending(w.storeContext(), w.recorder.left(began)) }()
	}
	if found.trip != nil {
		w.carryOutWithin(found.trip, w.recorder.left(began), n)
	}
}

// look judges the run at this moment. It notes when the next poll has to, and returns how long the timer may wait. The
// caller holds mu.
func (w *Watchdog) look() (f *findings, wait time.Duration) {
	if w.phase != running || w.endWithParent() {
		return nil, verdict.Never
	}
	if w.disabled {
		w.beQuiet(w.clock.elapsed(), verdict.Never)
		return f.with(w.takeDue()), verdict.Never // differs: what is due is recorded at once, as of any run
	}
	for {
		now := w.clock.elapsed()
		w.takePulse(now)
		w.resetLadders()
		f = f.with(w.takeDue())
		v := w.judge(now)
		if v.Action == verdict.Continue {
			w.beQuiet(now, v.Next)
			return f, verdict.Until(v.Next, now)
		}
		f = f.made()
		switch {
		case w.mustAsk(v):
			if f.inquiry = w.inquire(v); f.inquiry != nil {
				return f, w.waitWhileAsking(now)
			}
			continue
		case v.Action == verdict.Warn:
			w.warn(f, v, now)
		case v.Action == verdict.Cancel && !w.observeOnly:
			f.trip = w.decide(v, reasonOf(v.Limit), now)
			return f, verdict.Never
		default:
			w.ask(f, v, reasonOf(v.Limit), now)
		}
		w.apply(v, now)
		w.awaitSign(v)
	}
}

// judge is the decision at the instant. The caller holds mu.
func (w *Watchdog) judge(now time.Duration) verdict.Verdict {
	if a := w.account.Load(); a != nil {
		a.in.lock()
		defer a.in.unlock()
		a.Learn()
	}
	return verdict.Judge(w.limits.Limits, w.seen, now)
}

// apply applies a verdict. The caller holds mu.
func (w *Watchdog) apply(v verdict.Verdict, now time.Duration) {
	if a := w.account.Load(); a != nil {
		a.in.lock()
		defer a.in.unlock()
	}
	w.seen.Apply(v, now)
}

// warn decides on a warning. The caller holds mu.
func (w *Watchdog) warn(f *findings, v verdict.Verdict, now time.Duration) {
	warning := w.warning(v, now)
	f.warnings = append(f.warnings, warning)
	f.entries = append(f.entries, w.recordWarning(warning))
}

// ask decides on a directive, and on the work that it ends. That it is put in line for its readers here keeps it behind
// older ones and before a stop. The caller holds mu.
func (w *Watchdog) ask(f *findings, v verdict.Verdict, reason string, now time.Duration) {
	d, ids := w.directive(v, reason), newDirectiveIDs()
	ids.replaces = w.noteGiven(ids.directive, v, now)
	f.directives = append(f.directives, w.line(d))
	f.entries = append(f.entries, w.recordDirective(d, ids))
	if r := w.retrial(d); len(r.tries) > 0 {
		f.retrials = append(f.retrials, r)
	}
}

// endTries ends the work that is to be done again. The caller holds no lock.
func (f *findings) endTries() {
	for _, r := range f.retrials {
		r.carryOut()
	}
}

// beQuiet lets polls pass until the instant next, or until it is time to see whether the machine slept.
func (w *Watchdog) beQuiet(now, next time.Duration) {
	if w.clock.other == nil {
		w.quietUntil.Store(int64(min(w.clock.sinceBase(now)+pollGlance, w.clock.sinceBase(next))))
	}
}

// change makes a change that can bring a limit nearer, holding mu. It looks before, for what was exceeded by then, and
// sets the timer afterwards.
func (w *Watchdog) change(change func()) {
	w.mu.Lock()
	w.clock.hold()
	if !w.calmAt(w.clock.moment) {
		if found, _ := w.look(); found != nil || !w.caughtUp() {
			w.clock.release()
			_ = w.unlockPolled(found, nil)
			w.mu.Lock()
			w.clock.hold()
		}
	}
	change()
	found := w.lookAndArm()
	w.clock.release()
	w.mu.Unlock()
	w.settle(found)
}

// changeHeld makes a change unless the run has ended, and returns what the looks around it found. It is change for a
// caller that holds mu, and for what must not wait for a stop that is being recorded; the change counts if that is
// taken back.
func (w *Watchdog) changeHeld(change func()) (found *findings) {
	w.clock.hold()
	defer w.clock.release()
	if !w.calmAt(w.clock.moment) {
		found, _ = w.look()
	}
	if w.phase != ended {
		change()
	}
	return found.and(w.lookAndArm())
}

// looks are what looks at several runs of a session found.
type looks []struct {
	w     *Watchdog
	found *findings
}

func (l *looks) add(w *Watchdog, found *findings) {
	if found != nil {
		*l = append(*l, struct {
			w     *Watchdog
			found *findings
		}{w, found})
	}
}

// settle does what was found. The caller has just unlocked mu.
func (l looks) settle() {
	if len(l) == 0 { // nearly always
		return
	}
	began := clocks.Now(l[0].w.clock.other)
	for _, one := range l {
		one.w.settleSince(one.found, began)
	}
}

// settle does what a look found, and tells the host what was traced on the goroutine of whoever gave the signal. The
// caller has just unlocked mu.
func (w *Watchdog) settle(found *findings) {
	if found == nil { // nearly always
		w.deliverTrace()
		return
	}
	w.settleSince(found, clocks.Now(w.clock.other))
}

// settleSince is settle for a caller that has waited since began.
func (w *Watchdog) settleSince(found *findings, began time.Time) {
	defer w.deliverTrace()
	w.askAside(found.asked())
	_ = w.begin(found, began)
}
