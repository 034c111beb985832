package watchdog

import (
	"github.com/seed62658d38/watchdog/internal/driver"
	"github.com/seed62658d38/watchdog/internal/journal"
)

// RingAll rings the sessions as the timer of all sessions does. In a testing/synctest bubble, where each has a timer of
// its own, StopTimer has to come first.
func RingAll(all ...*Watchdog) {
	due := make([]*driver.Tree, len(all))
	for i, w := range all {
		due[i] = w.r.Tree
	}
	driver.RingAll(due)
}

// StopTimer stops the session's own timer.
func StopTimer(w *Watchdog) { w.r.Tree.StopTimer() }

// Much has processes note how far they have read after so many events, until restore is called.
func Much(events int) (restore func()) {
	before := journal.Much
	journal.Much = events
	return func() { journal.Much = before }
}

// LimitsAfter are the limits of a run with the budget, begun after one with the other; nil is the first of the process.
func LimitsAfter(last *Budget, b Budget) any {
	lastLimits.Store(nil)
	if last != nil {
		last.shared()
	}
	return *b.shared()
}
