package sweep

import (
	"fmt"
	"time"
)

// After maxFailuresInARow sessions in a row have failed for failingFor, or at the end of a pass in which nothing
// worked, the database is at fault and not the sessions. Failures that come at once are gone through: there may be a
// session behind them that can be cancelled.
const (
	maxFailuresInARow = 10
	failingFor        = 30 * time.Second
)

// retryingFor is how long a pass tries again, in all, what failed before and fails again. What is left of that waits
// for a later pass, so that it keeps no other session from its turn, however slowly it fails.
const retryingFor = 10 * time.Second

// failures are those of a pass.
type failures struct {
	inARow    int
	since     time.Time // when the first of them began
	unreached int       // how many of them in a row could not be read either
	last      error
	runs      []string // all that failed
	worked    bool     // the database took a decision about a session
	retried   time.Duration
	first     int  // how many failed for the first time
	cutShort  bool // there may be sessions behind the last that failed
}

// answered notes that the database took a decision about a session.
func (f *failures) answered() { f.inARow, f.unreached, f.worked = 0, 0, true }

// retriedEnough reports whether a session failed before and has to wait for a later pass.
func (f *failures) retriedEnough(m pending) bool { return m.failures > 0 && f.retried >= retryingFor }

// goesOn reports whether the next pass should come soon though this one failed: few sessions failed, slowly, and could
// be read, so that the database is not down, and the next ones have not had their turn.
func (f *failures) goesOn() bool {
	return f.cutShort && f.first > 0 && f.unreached == 0 && len(f.runs) <= maxPage
}

// failed puts off the next try of a session. It returns an error, which ends the pass, after too many failures in a
// row.
func (w *walk) failed(c Case, m pending, err error) error {
	w.remember(c, m.failed(w.cfg.Interval, time.Now()))
	w.pass.Failed++
	w.addCase(c, CaseFailed)
	w.addError(err)
	w.runs, w.last = append(w.runs, c.Session.RunID), err
	if m.failures > 0 {
		w.retried += time.Since(w.tryBegan)
	} else {
		w.first++
	}
	if w.inARow++; w.inARow == 1 {
		w.since = w.tryBegan
	}
	if w.inARow < maxFailuresInARow || time.Since(w.since) < failingFor {
		return nil
	}
	w.cutShort = true
	return w.tooMany()
}

// tooMany returns the error that ends a pass.
func (f *failures) tooMany() error {
	return fmt.Errorf("%d sessions in a row failed, the last: %w", f.inARow, f.last)
}

// nothingWorked reports whether many sessions failed, and nothing else was tried or it failed, too.
func (f *failures) nothingWorked() bool { return !f.worked && len(f.runs) >= maxFailuresInARow }

// holdBack has the sessions that failed tried again soon if nothing worked at all.
func (w *walk) holdBack() {
	if !w.nothingWorked() {
		return
	}
	for _, runID := range w.runs {
		w.pending.holdBack(runID, w.cfg.Interval, time.Now())
	}
}
