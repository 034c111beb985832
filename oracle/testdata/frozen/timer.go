package watchdog

import (
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/alarm"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/uptime"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// alarms is the one timer of all runs on the machine's clock, retryAlarms that of their retriers. It is set only while
// something waits for a store.
var (
	alarms      *alarm.Queue[Watchdog]
	retryAlarms *alarm.Queue[retrier]
)

// Set in init to break an initialization cycle: ringing sets alarms.
func init() {
	began := uptime.Start(time.Now())
	slept := func() time.Duration { return began.Slept(time.Now()) }
	alarms, retryAlarms = alarm.New(ringAll, slept), alarm.New(tryAll, slept)
}

// ringAll looks at every run that is due, and has what it finds carried out together. It does not block.
func ringAll(due []*Watchdog) {
	r, s := newRing(time.Now()), &survey{}
	for _, w := range due {
		found := w.timerLook()
		s.add(w, found.asked())
		if !found.nothing() {
			r.add(w, found)
		}
	}
	r.flush()
	s.ask()
}

// ring is the look of a run's own timer.
func (w *Watchdog) ring() {
	found := w.timerLook()
	if found == nil {
		return
	}
	w.askAside(found.inquiry)
	if found.trip != nil {
		go w.endAndTell(found.trip)
	}
	w.deliver(found)
}

// timerLook is the timer's look. It returns what is left to record and to carry out. It does not block: what the host
// traces is told on another goroutine.
func (w *Watchdog) timerLook() *findings {
	w.mu.Lock()
	found := w.lookAndArm()
	w.mu.Unlock()
	if w.trace.waiting() {
		go w.deliverTrace()
	}
	if found == nil {
		return nil
	}
	found.endTries()
	return found
}

// lookAndArm is the look of the timer, and the first. The caller holds mu.
func (w *Watchdog) lookAndArm() *findings {
	found, wait := w.look()
	w.arm(wait)
	return found
}

// arm sets the timer. One that is set for an earlier time stays, and looks once in vain: what puts a limit off, such as
// a hold, mostly comes again and again. The caller holds mu.
func (w *Watchdog) arm(wait time.Duration) {
	switch {
	case w.pollOnly || w.disabled || wait == verdict.Never:
	case w.clock.base.Machine():
		alarms.Within(&w.item, wait)
	case w.timer == nil:
		w.timer = clocks.AfterFunc(w.clock.other, w.clock.patience(wait), w.ring)
	default:
		w.timer.Reset(w.clock.patience(wait))
	}
}

// lookSoon has the next poll look closely, and the timer at once. The caller holds mu.
func (w *Watchdog) lookSoon() {
	w.quietUntil.Store(0)
	w.arm(0)
}

// disarm lets go of the timer and the parent. The caller holds mu.
func (w *Watchdog) disarm() {
	w.quietUntil.Store(0)
	if w.timer != nil {
		w.timer.Stop()
	} else {
		alarms.Remove(&w.item)
	}
	if w.outer != nil {
		w.outer.removeLayer(w)
	}
	if w.stopParent != nil && !w.ownsAfterFunc() { // else it is the host's code, see closeHolds
		w.stopParent()
		w.stopParent = nil
	}
}
