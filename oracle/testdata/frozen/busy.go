package watchdog

import (
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// BusyTimeout is how long [Config].Busy may take to answer.
const BusyTimeout = time.Second

// busyness is what is known of the host's Busy. The run's mutex guards it.
type busyness struct {
	asking  *inquiry         // that waits for an answer
	calling bool             // a call has not returned
	denied  verdict.IdleTrip // the last trip of which the host said that it is not busy
	late    bool             // the log was told that a call did not return in time
}

// An inquiry asks the host whether it is busy, before a trip of Idle. Whoever began it asks.
type inquiry struct {
	trip verdict.IdleTrip
	over bool          // guarded by the run's mutex: it was answered, or the run ended
	done chan struct{} // closed then
}

// mustAsk reports whether the host has to be asked before the verdict is carried out. A call that was left behind, and
// may never return, is not made again: it says false. The caller holds mu.
func (w *Watchdog) mustAsk(v verdict.Verdict) bool {
	trip, ok := v.IdleTrip()
	if !ok || w.busy == nil {
		return false
	}
	b := &w.extras().busy
	return b.denied != trip && (b.asking != nil || !b.calling)
}

// inquire puts off the trip until the host was asked, which the caller has to do, holding no lock. It returns nil while
// the host is being asked about a silence before: then this one comes next. The caller holds mu.
func (w *Watchdog) inquire(v verdict.Verdict) (fresh *inquiry) {
	b := &w.more.busy
	w.seen.Asking = true
	w.seen.Asked, _ = v.IdleTrip()
	if b.asking != nil {
		return nil
	}
	b.asking, b.calling = &inquiry{trip: w.seen.Asked, done: make(chan struct{})}, true
	return b.asking
}

// waitWhileAsking returns how long the timer may wait beside an inquiry that has just begun. What else is due already
// was exceeded later than the limit of silence, and so waits for the answer. The caller holds mu.
func (w *Watchdog) waitWhileAsking(now time.Duration) time.Duration {
	v := w.judge(now)
	if v.Action != verdict.Continue {
		w.quietUntil.Store(0)
		return BusyTimeout
	}
	w.beQuiet(now, v.Next)
	return verdict.Until(v.Next, now)
}

// dropInquiry has nobody wait for an answer, because the run's end is decided. The caller holds mu.
func (w *Watchdog) dropInquiry() {
	if w.more != nil && w.more.busy.asking != nil {
		w.endInquiry()
	}
}

// endInquiry ends the inquiry that waits for an answer. The caller holds mu.
func (w *Watchdog) endInquiry() {
	q := w.more.busy.asking
	w.more.busy.asking, w.seen.Asking = nil, false
	q.over = true
	close(q.done)
}

// askBusy calls the host for an inquiry that a look began, on another goroutine. It calls then once the answer has
// come, or is not waited for any more. The caller holds no lock.
func (w *Watchdog) askBusy(q *inquiry, then func()) {
	if w.isOver(q) {
		then()
		return
	}
	timer := clocks.AfterFunc(w.clock.other, BusyTimeout, func() {
		if w.answer(q, false) {
			then()
			w.reportLate()
		}
	})
	go func() {
		busy := false
		defer func() { // also if the host ends this goroutine
			timer.Stop()
			w.busyReturned()
			if w.answer(q, busy) {
				then()
			}
		}()
		w.callHost("Busy", func() { busy = w.busy() })
	}()
}

// askAside has the host asked for what a look found, if it has to be, and nobody wait for that.
func (w *Watchdog) askAside(q *inquiry) {
	switch {
	case q == nil:
	case w.pollOnly:
		w.askBusy(q, func() {})
	default:
		w.askBusy(q, w.ring)
	}
}

// awaitAnswer asks the host on behalf of a poll, which looks again afterwards.
func (w *Watchdog) awaitAnswer(q *inquiry) {
	w.askBusy(q, func() {})
	<-q.done
}

// answer takes what the host said, or that it did not say it in time, and reports whether that was waited for. It
// counts if the silence goes on about which the host was asked.
func (w *Watchdog) answer(q *inquiry, busy bool) (awaited bool) {
	w.mu.Lock()
	var around *Watchdog
	if awaited = !q.over; awaited {
		w.endInquiry()
		w.takePulse(w.clock.elapsed())
		goesOn := w.phase == running && verdict.NextIdleTrip(w.limits.Limits, w.seen) == q.trip
		switch {
		case goesOn && busy:
			w.signalTaken(Signal{Kind: SignalActivity, From: q.trip.Since, Rung: q.trip.Rung, Busy: true})
			around = w.outer
		case goesOn:
			w.more.busy.denied = q.trip
		}
		w.quietUntil.Store(0)
	}
	w.unlock()
	around.Activity()
	return awaited
}

// isOver reports whether the run's end was decided before the host was asked, which it then is not.
func (w *Watchdog) isOver(q *inquiry) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if q.over {
		w.more.busy.calling = false
	}
	return q.over
}

func (w *Watchdog) busyReturned() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.more.busy.calling = false
}

// reportLate tells the log once that Busy does not answer.
func (w *Watchdog) reportLate() {
	w.mu.Lock()
	told := w.more.busy.late
	w.more.busy.late = true
	w.mu.Unlock()
	if !told {
		callLog(func() {
			w.log().Error("the host's Busy did not answer in time and counts as false", "run", w.id, "timeout", BusyTimeout)
		})
	}
}

// togetherAfter is how long the answers of runs that were asked together wait for those of the others.
const togetherAfter = 5 * time.Millisecond

// A survey asks the hosts of runs that the timer found silent at one moment. What the answers come to is carried out
// together again, as that of a [ring]: at once when all have answered, and soon where one takes its time.
type survey struct {
	runs []*Watchdog
	asks []*inquiry

	mu       sync.Mutex
	open     int // those that have not answered
	answered []*Watchdog
	timer    *time.Timer // of those that wait for others
}

func (s *survey) add(w *Watchdog, q *inquiry) {
	if q != nil {
		s.runs, s.asks = append(s.runs, w), append(s.asks, q)
	}
}

// ask does not block.
func (s *survey) ask() {
	s.open = len(s.runs)
	for i, w := range s.runs {
		w.askBusy(s.asks[i], func() { s.take(w) })
	}
}

// take notes that a run was answered.
func (s *survey) take(w *Watchdog) {
	s.mu.Lock()
	s.open--
	s.answered = append(s.answered, w)
	last := s.open == 0
	if !last && s.timer == nil {
		s.timer = time.AfterFunc(togetherAfter, s.flush)
	}
	s.mu.Unlock()
	if last {
		s.flush()
	}
}

// flush has the timer look again at those that were answered.
func (s *survey) flush() {
	s.mu.Lock()
	answered := s.answered
	s.answered = nil
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.mu.Unlock()
	ringAll(answered)
}
