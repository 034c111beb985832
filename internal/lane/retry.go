package lane

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/seed62658d38/watchdog/internal/alarm"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/ordered"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// maxProbes is how many runs a try asks the store for, one after the other, before it takes the store for away: each of
// them may have an event that is refused for good.
const maxProbes = 4

// retrying is what a lane has its store asked again for, also if nobody polls. All runs share a try, its timer and its
// goroutine: only once the store has taken something of one run it is asked for the others, together.
//
// Rejected: a timer for each run. Ten thousand of them would ask a store that has just come back, or is still away, ten
// thousand times.
type retrying struct {
	place   *journal.Place
	waiting map[*Recorder]int // how often each was tried in vain
	trying  bool
	hung    *Recorder     // which the store has not answered, nor any other since
	set     time.Duration // what the timer is set to, before it is spread; 0 if it is not
	item    alarm.Item[lane]
	timer   clocks.Timer // in place of item if the clock is not the machine's
}

// The marks of a run.
const (
	wasLeft  uint32 = 1 << iota // to a lane that tries again, at least once
	isClosed                    // by its host
)

var shared alarm.Shared[lane]

// alarms is the one timer of all lanes on the machine's clock.
func alarms() *alarm.Queue[lane] {
	return shared.Queue(func(due []*lane) { // must not block
		for _, l := range due {
			go l.retry()
		}
	})
}

// TryLater has what waits for the store tried again, unless the host is the only one that does or the run is closed.
func (r *Recorder) TryLater() {
	waits, tries := r.untaken()
	if !waits || r.Place().Inline {
		return
	}
	r.marks.Or(wasLeft)
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	if r.run.Closed() {
		return
	}
	l := r.lane()
	if l.waiting == nil {
		l.waiting = map[*Recorder]int{}
	}
	l.waiting[r] = tries
	l.within(verdict.RetryRecord(tries))
}

// Close has nothing tried again by itself any more.
func (r *Recorder) Close() {
	if r.marks.Or(isClosed)&wasLeft == 0 { // nearly always
		return
	}
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	if l := lanes.all[keyOf(r.Place())]; l != nil {
		delete(l.waiting, r)
		l.endUnused()
	}
}

// Closed reports whether the recorder was closed.
func (r *Recorder) Closed() bool { return r.marks.Load()&isClosed != 0 }

// untaken reports whether the store does not have everything, and how often that was tried in vain.
func (r *Recorder) untaken() (waits bool, tries int) {
	r.locked(func() { waits, tries = !r.pending().Empty(), int(r.underway().vain) })
	return waits, tries
}

// within sets the timer, unless it is set to come as soon. Half of the wait is left to chance, so that the processes of
// a store that comes back do not ask it at one moment. The caller holds the mutex.
func (l *lane) within(wait time.Duration) {
	if l.trying || l.set != 0 && l.set <= wait {
		return
	}
	l.set = wait
	wait = wait/2 + clocks.Spread(wait/2+1)
	switch {
	case l.place.Machine:
		alarms().Within(&l.item, wait)
	case l.timer == nil:
		l.timer = clocks.AfterFunc(l.place.Clock, wait, l.retry)
	default:
		l.timer.Reset(wait)
	}
}

// endUnused lets go of a lane in which nobody waits. The caller holds the mutex.
func (l *lane) endUnused() {
	if l.trying || l.working > 0 || len(l.waiting)+len(l.ends)+len(l.others) > 0 {
		return
	}
	if l.set = 0; lanes.all[l.key] == l {
		delete(lanes.all, l.key)
	}
	switch {
	case l.place.Machine:
		alarms().Remove(&l.item)
	case l.timer != nil:
		l.timer.Stop()
	}
}

// retry tries again for all runs that wait, unless nobody does any more. Those whose events the store does not have
// then wait for the next try.
func (l *lane) retry() {
	runs, begun := l.begin()
	if !begun {
		return
	}
	defer l.end(runs)
	if !l.answers() { // the last try, yet
		return
	}
	probes := 0
	for i, r := range runs {
		asked, took, err := r.tryAgain()
		switch {
		case took:
			retryRest(runs[i+1:])
			return
		case asked && r.Busy():
			l.hangs(r)
			return
		case errors.Is(err, context.DeadlineExceeded):
			return
		case asked:
			probes++
		}
		if probes == maxProbes {
			return
		}
	}
}

// answers reports whether the store is to be asked: it has answered the run that it let wait, or another one since.
func (l *lane) answers() bool {
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	if l.hung != nil && l.hung.Busy() {
		return false
	}
	l.hung = nil
	return true
}

func (l *lane) hangs(r *Recorder) {
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	l.hung = r
}

// answered reports whether the store took what the run had, or refused it in time.
func (one *recordable) answered() (yes bool) {
	one.r.locked(func() {
		missing := one.r.pending().All()
		if yes = !one.alone; yes && len(missing) > 0 {
			err := missing[len(missing)-1].Err()
			yes = err != nil && !errors.Is(err, context.DeadlineExceeded)
		}
	})
	return yes
}

// begin takes the runs that wait, those first that were tried least: they are the least likely to have an event that is
// refused for good. One try at a time is under way.
func (l *lane) begin() (runs []*Recorder, begun bool) {
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	if l.trying || l.set == 0 {
		return nil, false
	}
	l.set, l.trying = 0, true
	runs = ordered.Keys(l.waiting, func(a, b *Recorder) int { return l.waiting[a] - l.waiting[b] })
	clear(l.waiting)
	return runs, true
}

// retryRest has the workers record the runs.
func retryRest(runs []*Recorder) {
	var due []*Recorder
	for _, r := range runs {
		if r.isDue() && r.WantAgain() {
			due = append(due, r)
		}
	}
	Enqueue(due...)
}

// end has the runs wait again that still have to, and sets the timer for the one that was tried least.
func (l *lane) end(runs []*Recorder) {
	again := make(map[*Recorder]int, len(runs))
	for _, r := range runs {
		if waits, tries := r.triedAgain(); waits {
			again[r] = tries
		}
	}
	lanes.mu.Lock()
	defer lanes.mu.Unlock()
	l.trying = false
	for r, tries := range again {
		if !r.run.Closed() {
			l.waiting[r] = tries
		}
	}
	for _, tries := range l.waiting {
		l.within(verdict.RetryRecord(tries))
	}
	l.endUnused()
}

// isDue reports whether the store is to be asked for the run: it lacks something, nobody else is at it, and the host
// has not closed the run.
func (r *Recorder) isDue() bool { return r.Waiting() && !r.run.Closed() && !r.Busy() }

// tryAgain tries again for one run, if that is due. It reports whether the store took anything, or why not.
func (r *Recorder) tryAgain() (asked, took bool, err error) {
	if !r.isDue() || !r.WantAgain() {
		return false, false, nil
	}
	entries, _ := r.missing()
	r.Carry(clocks.Now(r.Place().Clock))
	r.run.Lock()
	defer r.run.Unlock()
	for _, e := range entries {
		took, err = took || e.Stored(), e.Err()
	}
	return true, took, err
}

// triedAgain counts a try, and reports whether it was in vain, and how many were.
func (r *Recorder) triedAgain() (waits bool, tries int) {
	waits, tries = r.untaken()
	switch {
	case !waits:
		tries = 0
	case tries < math.MaxUint8:
		tries++
	}
	r.locked(func() { r.underway().vain = uint8(tries) }) //nolint:gosec // at most MaxUint8
	return waits, tries
}
