package watchdog

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// findings are what a look asks to be done once the mutex is free.
type findings struct {
	trip       *trip
	warnings   []Warning
	directives []Directive
	retrials   []retrial
	closed     closings // of a run that its parent has ended
}

// and returns these findings and those of the next look.
func (f findings) and(next findings) findings {
	if f.trip == nil {
		f.trip = next.trip
	}
	f.warnings, f.directives = append(f.warnings, next.warnings...), append(f.directives, next.directives...)
	f.retrials, f.closed = append(f.retrials, next.retrials...), append(f.closed, next.closed...)
	return f
}

// quiet reports, without a lock, that nothing can have happened since the last look. It only ever does on the machine's
// clock.
func (w *Watchdog) quiet() bool {
	until := w.quietUntil.Load()
	return until > 0 && int64(w.clock.base.Since()) < until
}

// poll looks at the run and carries out what it finds. It returns the stop once there is one.
func (w *Watchdog) poll() *Stop { return w.pollFor(nil) }

// pollFor is poll for another guard, which adds to what the look found while the mutex is held.
func (w *Watchdog) pollFor(guard func(findings) findings) *Stop {
	w.recorder.retry(w.inner)
	for {
		w.mu.Lock()
		found, _ := w.look()
		if guard != nil {
			found = guard(found)
		}
		stop, underway := w.stop, w.trip
		w.mu.Unlock()
		if stop != nil { // nothing was found; what the end left to do is for whoever ended the run
			return stop
		}
		w.doFound(found)
		switch {
		case found.trip != nil: // carried out
		case underway != nil:
			<-underway.done
		default:
			return nil
		}
	}
}

// doFound does what a look found, the trip also if a callback of the host's ends this goroutine. The caller has just
// unlocked mu.
func (w *Watchdog) doFound(found findings) {
	defer func() {
		if found.trip != nil {
			w.carryOut(found.trip)
		}
	}()
	defer found.closed.stop(w)
	defer w.deliver(found)
	defer w.deliverTrace()
	found.endTries()
	found.closed.release()
}

// look judges the run at this moment. It notes when the next poll has to, and returns how long the timer may wait. The
// caller holds mu.
func (w *Watchdog) look() (f findings, wait time.Duration) {
	if w.phase != running || w.endWithParent() {
		f.closed = w.closeHolds()
		return f, verdict.Never
	}
	if w.disabled {
		w.beQuiet(w.clock.elapsed(), verdict.Never)
		return f, verdict.Never
	}
	for {
		now := w.clock.elapsed()
		w.takePulse(now)
		v := verdict.Judge(w.limits.Limits, w.seen, now)
		switch {
		case v.Action == verdict.Continue:
			w.beQuiet(now, v.Next)
			return f, verdict.Until(v.Next, now)
		case v.Action == verdict.Warn:
			f.warnings = append(f.warnings, w.warning(v, now))
		case v.Action == verdict.Cancel && !w.observeOnly:
			f.trip = w.decide(v, reasonOf(v.Limit), now)
			return f, verdict.Never
		default:
			f = f.ask(w, w.directive(v, reasonOf(v.Limit)))
		}
		w.seen.Apply(v, now)
	}
}

// ask adds a directive, and the work that it ends. The caller holds mu.
func (f findings) ask(w *Watchdog, d Directive) findings {
	f.directives = append(f.directives, d)
	if r := w.retrial(d); len(r.tries) > 0 {
		f.retrials = append(f.retrials, r)
	}
	return f
}

// endTries ends the work that is to be done again. The caller holds no lock.
func (f findings) endTries() {
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
	_ = w.poll()
	w.mu.Lock()
	change()
	found := w.lookAndArm()
	w.mu.Unlock()
	w.settle(found)
}

// changeNow makes a change unless the run has ended. It is change for what must not wait for a stop that is being
// recorded; the change counts if that is taken back.
func (w *Watchdog) changeNow(change func()) {
	w.mu.Lock()
	found, _ := w.look()
	if w.phase != ended {
		change()
	}
	found = found.and(w.lookAndArm())
	w.mu.Unlock()
	w.settle(found)
}

// settle does what a look found. It makes the caller wait for the store only if there is no other goroutine. The caller
// has just unlocked mu.
func (w *Watchdog) settle(found findings) {
	if found.trip != nil && !w.pollOnly {
		go w.carryOut(found.trip)
		found.trip = nil
	}
	w.doFound(found)
}
