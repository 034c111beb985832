package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/storeflow"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// The row of a run in a lease has the largest threshold, and its own in another column: see leaseTables.
const attachRow = `
	INSERT INTO main.watchdog_sessions
		(run_id, parent, threshold, started_at, host, status, created_at, last_event_at, attempt, lease, leased,
		own_threshold, state, allowance, allowed)
	VALUES (?1, ?2, ?3, ?4, ?5, 'active', ?6, ?6, ?7, ?8, CASE WHEN ?8 IS NOT NULL THEN ?7 END, ?9, ?10,
		?12, CASE WHEN ?12 IS NOT NULL THEN ?7 END)
	ON CONFLICT (run_id) DO UPDATE SET parent = ?2, threshold = ?3, started_at = ?4, host = ?5,
		status = 'active', reason = '', last_event_at = ?6, attempt = ?7, lease = ?8, leased = excluded.leased,
		own_threshold = ?9, state = ?10, ended = coalesce(?11, ended), activity = NULL, quiet_since = NULL,
		quiet_due = NULL, claim = NULL, claimed_until = NULL, warned_at = NULL, stop_failed = NULL,
		allowance = ?12, allowed = excluded.allowed`

// Attach implements [session.Store]. If the row is unreadable, Attach leaves it as it is and returns an error that
// wraps [session.ErrUnreadable].
func (s *Store) Attach(ctx context.Context, run session.Session) (before, after session.Session, err error) {
	doing := "attach to session " + run.RunID
	rows, err := changed(ctx, s, doing, 1, func(t *transaction) (rows [2]session.Session) {
		rows[0], rows[1] = t.attach(run)
		return rows
	})
	return rows[0], rows[1], lockedError(err)
}

func (t *transaction) attach(run session.Session) (before, after session.Session) {
	if run.Lease != "" {
		t.living(run.Lease)
	}
	before, err := sessionBy(t, run.RunID)
	if !errors.Is(err, session.ErrNotFound) {
		t.fail(err)
	}
	if run.Attempt > 0 && before.Attempt >= run.Attempt {
		return before, before
	}
	t.writeAttempt(run, before, t.now())
	return before, t.session(run.RunID)
}

// writeAttempt writes the row of a new attempt. If the one before has not ended, it has now.
func (t *transaction) writeAttempt(run, before session.Session, now time.Time) {
	var ended any
	if before.Status == session.Active {
		ended = t.nextEndNumber()
		t.noteEnd(before)
	}
	a := storeflow.AttemptOf(run)
	t.do(attachRow, run.RunID, run.Parent, a.Threshold, formatTime(run.StartedAt), run.Host, formatTime(now),
		max(before.Attempt+1, run.Attempt), a.Lease, a.Own, storeflow.NullJSON(run.State), ended, a.Allowance)
}

// The + in front of status keeps SQLite from using an index: it would prefer a host's index on the status to the
// primary key.
const endRow = `
	UPDATE main.watchdog_sessions SET ` + leave + `, status = ?4, reason = ?5, ended = ?6, stop_failed = NULL,
		state = coalesce(?7, state)
	WHERE run_id = ?1 AND attempt = ?2 AND +status = 'active'`

// End implements [session.Store]. If an ending is invalid ([session.Ending.Validate]), End writes nothing and returns
// the error. It treats locks as Freshen does.
func (s *Store) End(ctx context.Context, ends []session.Ending) (skipped session.Skipped, err error) {
	if err := storeflow.CheckEnds(ends); err != nil {
		return session.Skipped{}, err
	}
	runOf := func(e session.Ending) string { return e.RunID }
	skipped.Failed, err = storerows.WriteEach(ends, runOf, func(part []session.Ending) error {
		return s.end(ctx, part)
	}, isRefusal)
	return skipped, err
}

// end writes some of the endings in one transaction.
func (s *Store) end(ctx context.Context, part []session.Ending) error {
	return s.change(ctx, fmt.Sprintf("end %d sessions", len(part)), len(part), func(t *transaction) {
		now := t.now() // before the number, which is when they ended
		number := t.nextEndNumber()
		for _, e := range part {
			t.do(endRow, e.RunID, e.Attempt, formatTime(now.Add(-e.Age)), string(e.Status), string(e.Reason), number,
				storeflow.NullJSON(e.State))
		}
	})
}

// nextEndNumber returns the number of the ends of this transaction: the time, but above all stored numbers, even if the
// clock was set back. Keepers of versions before 6 ask by it what ended, and nobody else.
func (t *transaction) nextEndNumber() (number int64) {
	t.fail(t.queryValue(&number, `
		SELECT max(`+databaseMicros+`, 1 + coalesce((SELECT max(ended) FROM main.watchdog_sessions WHERE `+hasEnded+`), 0))`))
	return number
}

var selectSession = `SELECT ` + sessionText + ` FROM main.watchdog_sessions WHERE run_id = ?1`

// session returns the row of a run, and fails if there is none.
func (t *transaction) session(runID string) session.Session {
	one, err := sessionBy(t, runID)
	t.fail(err)
	return one
}

// sessionBy reads the row of a run.
func sessionBy(on querier, runID string) (session.Session, error) {
	var text string
	if found, err := lookUp(on, selectSession, []any{runID}, &text); err != nil {
		return session.Session{}, err
	} else if !found {
		return session.Session{}, fmt.Errorf("%w: run %s", session.ErrNotFound, runID)
	}
	return readSession(text)
}

var (
	_ session.Store               = (*Store)(nil)
	_ session.Lister              = (*Store)(nil)
	_ watchdog.TransactionalStore = (*Store)(nil)
	_ watchdog.FeedStore          = (*Store)(nil)
	_ watchdog.SpendStore         = (*Store)(nil)
)
