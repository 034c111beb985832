package watchdog

import (
	"time"

	"github.com/seed62658d38/watchdog/internal/alarm"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/uptime"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// alarms is the one timer of all runs on the machine's clock.
var alarms *alarm.Queue[Watchdog]

// Set in init to break an initialization cycle: ringing sets alarms.
func init() {
	began := uptime.Start(time.Now())
	alarms = alarm.New(ringAll, func() time.Duration { return began.Slept(time.Now()) })
}

// ringAll looks at every run that is due. It does not block.
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
		go w.endAndTell(t)
	}
}

// timerLook is the timer's look. It returns the trip that is left to carry out. It does not block: what the host traces
// is told on another goroutine.
func (w *Watchdog) timerLook() *trip {
	w.mu.Lock()
	found := w.lookAndArm()
	w.mu.Unlock()
	if w.trace.waiting() {
		go w.deliverTrace()
	}
	found.endTries()
	if len(found.closed) > 0 {
		go found.closed.letGo(w)
	}
	w.deliver(found)
	return found.trip
}

// lookAndArm is the look of the timer, and the first. The caller holds mu.
func (w *Watchdog) lookAndArm() findings {
	found, wait := w.look()
	w.arm(wait)
	return found
}

// arm sets the timer. The caller holds mu.
func (w *Watchdog) arm(wait time.Duration) {
	switch {
	case w.pollOnly || w.disabled || wait == verdict.Never:
	case w.clock.base.Machine():
		alarms.Set(&w.item, wait)
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
	if w.stopParent != nil {
		w.stopParent()
	}
}

// batchSize is how many trips one goroutine carries out if their store answers at once.
const batchSize = 128

// A batch holds trips of one moment whose stores answer at once. A goroutine for each would cost more than its work.
// Trips that have to wait for their store get one each, so that a store that hangs holds up only its own runs.
type batch []tripOf

// A tripOf is a run and its trip.
type tripOf struct {
	w *Watchdog
	t *trip
}

// add returns the batch with the trip in it, or already started.
func (b batch) add(w *Watchdog, t *trip) batch {
	if !w.recorder.instant() {
		go w.endAndTell(t)
		return b
	}
	if b = append(b, tripOf{w, t}); len(b) < batchSize {
		return b
	}
	go b.carryOut()
	return nil
}

// carryOut ends all runs before it tells a host of any: none waits for the log of another.
func (b batch) carryOut() {
	all := make([]news, len(b))
	for i, run := range b {
		run.w.carryOut(run.t, &all[i])
		run.w.wake(all[i].takeAsleep())
		all[i].closed.release()
	}
	for _, run := range b {
		if run.w.trace.waiting() {
			go run.w.deliverTrace()
		}
	}
	b.tellHosts(all)
}

// tellHosts tells the logs, also if one of them ends this goroutine.
func (b batch) tellHosts(all []news) {
	if len(b) == 0 {
		return
	}
	defer b[1:].tellHosts(all[1:])
	b[0].w.tellHost(&all[0])
}
