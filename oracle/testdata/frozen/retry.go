package watchdog

import (
	"context"
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/alarm"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/uptime"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// maxProbes is how many runs a try asks the store for, one after the other, before it takes the store for away: each of
// them may have an event that is refused for good.
const maxProbes = 4

// A retrier has a store asked again for what it did not take of its runs, also if nobody polls. All of them share a
// try, its timer and its goroutine: only once the store has taken something of one run it is asked for the others,
// together. It is there as long as a run waits.
//
// Rejected: a timer for each run. Ten thousand of them would ask a store that has just come back, or is still away, ten
// thousand times.
type retrier struct {
	key     retryKey
	waiting map[*recorder]int // how often each was tried in vain
	trying  bool
	hung    *recorder     // which the store has not answered; only the try uses it
	set     time.Duration // what the timer is set to, before it is spread; 0 if it is not
	item    alarm.Item[retrier]
	timer   clocks.Timer // in place of item if the clock is not the machine's
	clock   clock.Clock  // of that
	machine bool         // the clock is
}

// A retryKey is what the runs of a retrier have in common.
type retryKey struct {
	groupKey
	clock clock.Clock // the host's
	alone *recorder   // that shares with no other; the rest is empty then
}

// The marks of a recorder.
const (
	wasLeft  uint32 = 1 << iota // to a retrier, at least once
	isClosed                    // by its host
)

// retries are all retriers. The mutex guards what is in them, too.
var retries = struct {
	mu  sync.Mutex
	all map[retryKey]*retrier
}{all: map[retryKey]*retrier{}}

// tryLater has what waits for the store tried again, unless the host is the only one that does or the run is closed.
// The caller may hold mu of the run.
func (r *recorder) tryLater() {
	waits, tries := r.untaken()
	if !waits || r.inline {
		return
	}
	key := r.retryKey()
	r.marks.Or(wasLeft)
	retries.mu.Lock()
	defer retries.mu.Unlock()
	if r.ended() {
		return
	}
	t := retries.all[key]
	if t == nil {
		t = r.newRetrier(key)
		retries.all[key] = t
	}
	t.waiting[r] = tries
	t.within(verdict.RetryRecord(tries))
}

// stopTries has nothing tried again by itself any more.
func (r *recorder) stopTries() {
	if r.marks.Or(isClosed)&wasLeft == 0 { // nearly always
		return
	}
	retries.mu.Lock()
	defer retries.mu.Unlock()
	if t := retries.all[r.retryKey()]; t != nil {
		delete(t.waiting, r)
		t.endUnused()
	}
}

// ended reports whether the run is closed, or one around it.
func (r *recorder) ended() bool {
	for w := r.run; w != nil; w = w.outer {
		if w.recorder.marks.Load()&isClosed != 0 {
			return true
		}
	}
	return false
}

// untaken reports whether the store does not have everything, and how often that was tried in vain.
func (r *recorder) untaken() (waits bool, tries int) {
	owes := r.run.owesShared()
	r.mu.Lock()
	defer r.mu.Unlock()
	return owes || !r.pending.Empty(), int(r.tries)
}

// retryKey is the key of the run's retrier. A run in a testing/synctest bubble shares with none: a timer of one bubble
// cannot be set in another. Nor does one whose store or clock cannot be compared.
func (r *recorder) retryKey() retryKey {
	inBubble := uptime.Exact && r.clock == nil && !r.run.clock.base.Machine()
	compares := reflect.ValueOf(r.store).Comparable() && (r.clock == nil || reflect.ValueOf(r.clock).Comparable())
	if inBubble || !compares {
		return retryKey{alone: r}
	}
	return retryKey{groupKey: groupKey{r.store, r.timeout}, clock: r.clock}
}

func (r *recorder) newRetrier(key retryKey) *retrier {
	t := &retrier{key: key, waiting: map[*recorder]int{}, clock: r.clock, machine: r.run.clock.base.Machine()}
	t.item.Owner = t
	return t
}

// within sets the timer, unless it is set to come as soon. Half of the wait is left to chance, so that the processes of
// a store that comes back do not ask it at one moment. The caller holds mu of the retries.
func (t *retrier) within(wait time.Duration) {
	if t.trying || t.set != 0 && t.set <= wait {
		return
	}
	t.set = wait
	wait = wait/2 + clocks.Spread(wait/2+1)
	switch {
	case t.machine:
		retryAlarms.Within(&t.item, wait)
	case t.timer == nil:
		t.timer = clocks.AfterFunc(t.clock, wait, t.try)
	default:
		t.timer.Reset(wait)
	}
}

// endUnused lets go of a retrier for which nobody waits. The caller holds mu of the retries.
func (t *retrier) endUnused() {
	if t.trying || len(t.waiting) > 0 {
		return
	}
	if t.set = 0; retries.all[t.key] == t {
		delete(retries.all, t.key)
	}
	if t.timer != nil {
		t.timer.Stop()
	}
	retryAlarms.Remove(&t.item)
}

// tryAll is what the timer of all runs does for the retriers that are due. It does not block.
func tryAll(due []*retrier) {
	for _, t := range due {
		go t.try()
	}
}

// try tries again for all runs that wait, unless nobody does any more. Those whose events the store does not have then
// wait for the next try.
func (t *retrier) try() {
	runs, begun := t.begin()
	if !begun {
		return
	}
	defer t.end(runs)
	defer cover(runs)
	if t.hung != nil && t.hung.busy() { // the store has not answered the last try yet
		return
	}
	t.hung = nil
	probes := 0
	for i, r := range runs {
		asked, took, err := r.tryAgain()
		switch {
		case took:
			t.together(runs[i+1:])
			return
		case asked && r.busy():
			t.hung = r
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

// cover takes what the runs owe to their shared limits, one after the other, until the store does not take something.
func cover(runs []*recorder) {
	for _, r := range runs {
		if !r.ended() && r.run.coverNow() != nil {
			return
		}
	}
}

// begin takes the runs that wait, those first that were tried least: they are the least likely to have an event that is
// refused for good. One try at a time is under way.
func (t *retrier) begin() (runs []*recorder, begun bool) {
	retries.mu.Lock()
	defer retries.mu.Unlock()
	if t.trying || t.set == 0 {
		return nil, false
	}
	t.set, t.trying = 0, true
	runs = slices.SortedFunc(maps.Keys(t.waiting), func(a, b *recorder) int { return t.waiting[a] - t.waiting[b] })
	clear(t.waiting)
	return runs, true
}

// together has the runs recorded in a few exchanges, on goroutines that nobody waits for.
func (t *retrier) together(runs []*recorder) {
	g := newGroup(t.key.groupKey, t.clock, clocks.Now(t.clock))
	for _, r := range runs {
		if one := (&ringing{w: r.run}); r.isDue() && one.takeEntries(&findings{}) {
			g.add(one)
		}
	}
	g.flush()
}

// end has the runs wait again that still have to, and sets the timer for the one that was tried least.
func (t *retrier) end(runs []*recorder) {
	again := make(map[*recorder]int, len(runs))
	for _, r := range runs {
		if waits, tries := r.tried(); waits {
			again[r] = tries
		}
	}
	retries.mu.Lock()
	defer retries.mu.Unlock()
	t.trying = false
	for r, tries := range again {
		if !r.ended() {
			t.waiting[r] = tries
		}
	}
	for _, tries := range t.waiting {
		t.within(verdict.RetryRecord(tries))
	}
	t.endUnused()
}

// isDue reports whether the store is to be asked for the run: it lacks something, nobody else is at it, and the host
// has not closed the run.
func (r *recorder) isDue() bool {
	return r.waiting() && !r.ended() && !r.busy()
}

// tryAgain tries again for one run, if that is due. It reports whether the store took anything, or why not.
func (r *recorder) tryAgain() (asked, took bool, err error) {
	if !r.isDue() {
		return false, false, nil
	}
	endTask := r.onlyTask()
	if endTask == nil {
		return false, false, nil
	}
	defer endTask()
	entries := r.missing()
	r.appendPending(r.run.storeContext(), r.timeout)
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		took, err = took || e.Stored(), e.Err()
	}
	return true, took, err
}

// tried counts a try, and reports whether it was in vain, and how many were.
func (r *recorder) tried() (waits bool, tries int) {
	waits, tries = r.untaken()
	switch {
	case !waits:
		tries = 0
	case tries < math.MaxUint8:
		tries++
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tries = uint8(tries) //nolint:gosec // at most MaxUint8
	return waits, tries
}
