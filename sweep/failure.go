package sweep

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/bounded"
	"github.com/seed62658d38/watchdog/internal/verdict"
	"github.com/seed62658d38/watchdog/session"
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
	w.pass.addError(err)
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

// settleFor is how long a pass looks up sessions that are gone. Another one looks up the rest.
const settleFor = 30 * time.Second

// maxUnreached is how many sessions in a row may fail and then not be read either. After that the database is at fault.
const maxUnreached = 3

// noteUnanswered has a cancel looked up that was not answered, if that can be done.
func (w *walk) noteUnanswered(c Case, m *pending) {
	if w.reader != nil {
		m.unanswered = &c
	}
}

// settle reads what became of a session whose cancel was not answered, and handles it. It reports false if the session
// is active.
func (w *walk) settle(ctx context.Context, c Case, m pending) (settled bool, err error) {
	runID := c.Session.RunID
	row, err := bounded.Within(ctx, w.cfg.RecordTimeout, func(ctx context.Context) (session.Session, error) {
		return w.reader.Session(ctx, runID)
	})
	switch {
	case errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrUnreadable):
	case err != nil:
		return false, fmt.Errorf("look up the cancel of run %s: %w", runID, err)
	case row.Status == session.Active:
		return false, nil
	case row.Status == session.Cancelled && row.Claim == m.by && row.Reason == c.Reason():
		w.logger().Warn("the answer about a cancel was lost, and the session was cancelled", c.attrs()...)
		switch {
		case w.starts == nil:
			row = w.rowAfter(c, m.by)
		case !w.mayStart(row):
			row.Start = session.WantedStart{} // it is taken as any other that is due
		}
		w.cancelled(ctx, c, row)
		return true, nil
	}
	w.spared(c)
	return true, nil
}

// mayStart reports whether the claim that a cancel made on the start lasts for as long as Start may take. It may have
// been written long ago, and another sweeper can take the start when the claim is over.
func (w *walk) mayStart(row session.Session) bool {
	return row.Start.Due.Sub(w.database.now(w.clock())) >= w.cfg.StopTimeout+bounded.Lateness
}

// inDoubt handles an error of Cancel, which may have been committed all the same: the row decides. It returns an error
// if the pass has to end. A row that cannot be read either is read by the pass that does not find the session any more;
// what has to follow a cancel waits for nobody, because it is in the row.
func (w *walk) inDoubt(ctx context.Context, c Case, m pending, err error) error {
	w.noteUnanswered(c, &m)
	if w.reader == nil || w.unreached >= maxUnreached {
		w.noteStopped(ctx, c, m)
		return w.failed(c, m, err)
	}
	settled, lookUpErr := w.settle(ctx, c, m)
	switch {
	case settled:
		return nil
	case lookUpErr != nil:
		w.unreached++
		err = errors.Join(err, lookUpErr)
	default:
		w.unreached = 0
		w.noteStopped(ctx, c, m)
	}
	if failure := w.failed(c, m, err); failure != nil {
		return failure
	}
	if w.unreached >= maxUnreached {
		return fmt.Errorf("%d sessions in a row failed and cannot be read, the last: %w", w.unreached, err)
	}
	return nil
}

// settleGone looks up the sessions that a complete pass did not find any more and whose cancel was not answered: they
// may be gone because it was committed late, and then it counts. It stops if the database cannot be read.
func (w *walk) settleGone(ctx context.Context) {
	if !w.complete {
		return
	}
	began, unreached := time.Now(), 0
	for _, runID := range slices.Sorted(maps.Keys(w.pending)) {
		m := *w.pending[runID]
		switch {
		case ctx.Err() != nil || unreached >= maxUnreached || time.Since(began) > settleFor:
			return
		case m.unanswered == nil || m.seenBy >= w.number:
			continue
		}
		if settled, err := w.settle(context.WithoutCancel(ctx), *m.unanswered, m); err != nil {
			unreached++
			w.pass.addError(err)
		} else if unreached = 0; !settled {
			w.pending.drop(runID)
		}
	}
}

// forgetAfter is how long an entry is kept past its next time if no pass sees the session.
const forgetAfter = 24 * time.Hour

// gather is the time within which graces end that one pass looks at together.
const gather = time.Second

// A pending is what a sweeper remembers, between passes, of a session that failed, or waits for the end of its grace.
type pending struct {
	// The session's signs of life, as it was judged.
	attempt     int
	lease       string
	activity    time.Duration
	lastEventAt time.Time

	by         string // who claims and cancels, the same at every try
	stopped    bool   // the stop hook was called, by whatever sweeper
	stopFailed bool
	unanswered *Case     // as it was judged at a cancel that was not answered; nil if there was none
	warnedAt   time.Time // by this host's clock; it counts only where the database does not know
	due        time.Time // when the grace ends; zero without
	failures   int       // in a row
	next       time.Time // the session is left alone until then
	keptAt     time.Time
	seenBy     int // number of the last pass that saw it
}

type pendings map[string]*pending

// of returns what is remembered of a session. A session that has given a sign of life since, or is in another attempt,
// starts from nothing.
func (all pendings) of(s session.Session) pending {
	m := all[s.RunID]
	if m != nil && m.attempt == s.Attempt && m.lease == s.Lease && m.activity == s.Activity &&
		m.lastEventAt.Equal(s.LastEventAt) {
		return *m
	}
	return pending{attempt: s.Attempt, lease: s.Lease, activity: s.Activity, lastEventAt: s.LastEventAt}
}

func (all pendings) keep(runID string, m pending) {
	m.keptAt = time.Now()
	all[runID] = &m
}

func (all pendings) drop(runID string) { delete(all, runID) }

func (all pendings) saw(runID string, pass int) {
	if m := all[runID]; m != nil {
		m.seenBy = pass
	}
}

// forget drops the sessions that a complete pass did not see, but for those that are to be looked up, and those that no
// pass saw for long.
func (all pendings) forget(pass int, complete bool, now time.Time) {
	maps.DeleteFunc(all, func(_ string, m *pending) bool {
		return complete && m.seenBy < pass && m.unanswered == nil ||
			now.Sub(m.keptAt) > forgetAfter && now.Sub(m.next) > forgetAfter
	})
}

// due returns when the next grace ends, or zero if none is running. Graces that end within [gather] of the first are
// waited for. A grace that is over already does not count: its session was due in the pass before, and waits for the
// interval.
func (all pendings) due(now time.Time) time.Time {
	var first, last time.Time
	for _, m := range all {
		if m.due.After(now) && (first.IsZero() || m.due.Before(first)) {
			first = m.due
		}
	}
	for _, m := range all {
		if m.due.After(last) && m.due.Sub(first) <= gather {
			last = m.due
		}
	}
	if first.IsZero() {
		return first
	}
	return last
}

// holdBack undoes the growth of a pause after a pass in which nothing worked: the database may be at fault.
func (all pendings) holdBack(runID string, interval time.Duration, now time.Time) {
	if m := all[runID]; m != nil {
		m.failures = min(m.failures, 1)
		if first := now.Add(pause(interval, 0)); m.next.After(first) {
			m.next = first
		}
	}
}

// failed returns what is remembered after one more failure.
func (m pending) failed(interval time.Duration, now time.Time) pending {
	m.next = now.Add(pause(interval, m.failures))
	m.failures++
	return m
}

// pause returns how long to wait after a failure. The first wait is half an interval, so that the next pass tries
// again. It doubles with each failure, up to six hours or the interval, whichever is longer.
func pause(interval time.Duration, failures int) time.Duration {
	return verdict.Doubled(interval/2, max(interval, forgetAfter/4), failures)
}
