package watchdog

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/alarm"
	"github.com/seed62658d38/watchdog/internal/uptime"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// findings are what a look asks to be done once the mutex is free.
type findings struct {
	trip       *trip
	warnings   []Warning
	directives []Directive
}

// quiet reports, without a lock, that nothing can have happened since the last look. It only ever does on the machine's clock.
func (w *Watchdog) quiet() bool {
	until := w.quietUntil.Load()
	return until > 0 && int64(w.clock.base.Since()) < until
}

// poll looks at the run and carries out what it finds. It returns the stop once there is one.
func (w *Watchdog) poll() *Stop { return w.pollFor(nil) }

// pollFor is poll for another guard, which adds to what the look found, while the mutex is held.
func (w *Watchdog) pollFor(guard func(findings) findings) *Stop {
	w.retry()
	for {
		w.mu.Lock()
		found, _ := w.look()
		if guard != nil {
			found = guard(found)
		}
		stop, underway := w.stop, w.trip
		w.mu.Unlock()
		w.deliver(found)
		switch {
		case stop != nil:
			return stop
		case found.trip != nil:
			w.carryOut(found.trip)
		case underway != nil:
			<-underway.done
		default:
			return nil
		}
	}
}

// look judges the run at this moment. It notes when the next poll has to, and returns how long the timer may wait. The
// caller holds mu.
func (w *Watchdog) look() (f findings, wait time.Duration) {
	if w.phase != running || w.endWithParent() {
		return f, verdict.Never
	}
	for {
		now := w.clock.elapsed()
		w.takePulse(now)
		v := verdict.Judge(*w.limits, w.seen, now)
		switch {
		case v.Action == verdict.Continue:
			w.beQuiet(now, v.Next)
			return f, verdict.Until(v.Next, now)
		case v.Action == verdict.Warn:
			f.warnings = append(f.warnings, w.warning(v))
		case v.Action == verdict.Cancel && !w.observeOnly:
			f.trip = w.decide(v, reasonOf(v.Limit), now)
			return f, verdict.Never
		default:
			f.directives = append(f.directives, w.directive(v, reasonOf(v.Limit)))
		}
		w.seen.Apply(v, now)
	}
}

// lookAndArm is the look of the timer, and the first. The caller holds mu.
func (w *Watchdog) lookAndArm() findings {
	found, wait := w.look()
	w.arm(wait)
	return found
}

// change makes a change that can bring a limit nearer, holding mu: it looks before, for what was exceeded by then, and sets
// the timer anew.
func (w *Watchdog) change(change func()) {
	_ = w.poll()
	w.mu.Lock()
	change()
	found := w.lookAndArm()
	w.mu.Unlock()
	w.settle(found)
}

// settle does what a look found, without making the caller wait for the store where there is another goroutine to.
func (w *Watchdog) settle(found findings) {
	w.deliver(found)
	switch {
	case found.trip == nil:
	case w.pollOnly:
		w.carryOut(found.trip)
	default:
		go w.carryOut(found.trip)
	}
}

// beQuiet lets polls pass until the instant next, or until it is time to see whether the machine slept.
func (w *Watchdog) beQuiet(now, next time.Duration) {
	if w.clock.other == nil {
		w.quietUntil.Store(int64(min(w.clock.sinceBase(now)+pollGlance, w.clock.sinceBase(next))))
	}
}

// decide makes the verdict the run's end: from here on nothing else can end it. The caller holds mu.
func (w *Watchdog) decide(v verdict.Verdict, reason string, elapsed time.Duration) *trip {
	w.phase = recording
	w.quietUntil.Store(0)
	w.trip = &trip{
		verdict: v, reason: reason, at: truncate(w.clock.now()), elapsed: elapsed, note: w.LastNote(), done: make(chan struct{}),
	}
	return w.trip
}

// alarms is the one timer of all runs on the machine's clock.
var alarms *alarm.Queue[Watchdog]

// Not where it is declared, because ringing sets alarms.
func init() {
	began := uptime.Start(time.Now())
	alarms = alarm.New(ringAll, func() time.Duration { return began.Slept(time.Now()) })
}

func ringAll(due []*Watchdog) {
	var quick batch
	for _, w := range due {
		if t := w.timerLook(); t != nil {
			quick = quick.add(w, t)
		}
	}
	quick.carryOut()
}

// ring is the look of a run's own timer.
func (w *Watchdog) ring() {
	if t := w.timerLook(); t != nil {
		go w.carryOut(t)
	}
}

// timerLook is the timer's look. It does not block; it returns the trip that is left to carry out.
func (w *Watchdog) timerLook() *trip {
	w.mu.Lock()
	found := w.lookAndArm()
	w.mu.Unlock()
	w.deliver(found)
	return found.trip
}

// arm sets the timer. The caller holds mu.
func (w *Watchdog) arm(wait time.Duration) {
	switch {
	case w.pollOnly || wait == verdict.Never:
	case w.clock.base.Machine():
		alarms.Set(&w.item, wait)
	case w.timer == nil:
		w.timer = w.clock.afterFunc(w.clock.patience(wait), w.ring)
	default:
		w.timer.Reset(w.clock.patience(wait))
	}
}

// disarm lets go of the timer and the parent. The caller holds mu.
func (w *Watchdog) disarm() {
	w.quietUntil.Store(0)
	if w.timer != nil {
		w.timer.Stop()
	} else {
		alarms.Remove(&w.item)
	}
	if w.stopParent != nil {
		w.stopParent()
	}
}
