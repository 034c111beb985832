package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

const (
	// judgeRow finds the row of a session that is as it was judged, and reports whether another than ?6 has claimed it. If
	// its lease names it as behind, it has been silent for ?8 up to its own instant, and for longer than its allowance.
	judgeRow = `SELECT coalesce(claim, '') <> ?6 AND coalesce(claimed_until, '') > ?7 FROM main.watchdog_sessions
	WHERE run_id = ?1 AND attempt = ?2 AND last_event_at IS ?3 AND (` + rowLease + `) = ?4 AND (` + rowActive + `) = ?5
		AND +status = 'active' AND ` + isReadable + ` AND (?8 <= 0 OR (` + rowAllowance + `) < ?8)
		AND NOT EXISTS (SELECT 1 FROM main.watchdog_leases AS l WHERE l.id = ?4
			AND (l.expired IS NOT NULL OR ?8 > 0 AND ` + ofBehind + ` - activity < ?8))`
	// claimRow notes whether the agents could not be stopped, ?4, unless that is NULL.
	claimRow = `UPDATE main.watchdog_sessions SET claim = ?2, claimed_until = ?3,
		warned_at = CASE WHEN ` + isNoted + ` THEN warned_at END, stop_failed = coalesce(?4, ` + stillStopped + `),` +
		noteSigns + ` WHERE run_id = ?1`

	warnRow = `UPDATE main.watchdog_sessions SET warned_at = ?2, stop_failed = ` + stillStopped + `,` + noteSigns + `
	WHERE run_id = ?1`

	stillStopped  = `CASE WHEN ` + isNoted + ` THEN stop_failed END`
	selectStopped = `SELECT ` + isStopped + ` FROM main.watchdog_sessions WHERE run_id = ?1`

	cancelRow = `UPDATE main.watchdog_sessions SET ` + leave + `, status = 'cancelled', reason = ?4,
		ended = ` + databaseMicros + `, resumes = ?5, stop_failed = ?6, claim = ?7, start_key = ?8,
		start_tries = CASE WHEN ?8 IS NOT NULL THEN 1 END, start_due = ` + databaseMicros + ` + ?9
	WHERE run_id = ?1 AND attempt = ?2`

	selectStoredEnd = `SELECT event_type, CAST(payload AS TEXT) FROM main.events
	WHERE id = ?1 COLLATE BINARY AND +aggregate_type = ?2 COLLATE BINARY AND +aggregate_id = ?3 COLLATE BINARY`
)

// Claim implements [session.Store].
func (s *Store) Claim(ctx context.Context, judged session.Session, c session.ClaimRequest) (session.Outcome, error) {
	return s.judged(ctx, "claim", judged, c.By, 1, func(t *transaction, now time.Time) session.Outcome {
		var stopped bool
		if t.look(selectStopped, []any{judged.RunID}, &stopped); stopped != judged.Stopped {
			return session.Changed
		}
		if t.storedEnd(judged, c.EndID) {
			return session.EndStored
		}
		t.do(claimRow, judged.RunID, c.By, formatTime(now.Add(c.For)), storeflow.StopFailed(c))
		return session.Done
	})
}

// Warn implements [session.Store].
func (s *Store) Warn(ctx context.Context, judged session.Session, events []event.Event) (session.Outcome, error) {
	rows, err := storeflow.Encode("warn", judged, events, encode)
	if err != nil {
		return "", err
	}
	return s.judged(ctx, "warn", judged, "", 1+len(rows), func(t *transaction, now time.Time) session.Outcome {
		t.do(warnRow, judged.RunID, formatTime(now))
		t.insertEvents(rows)
		return session.Done
	})
}

// Cancel implements [session.Store]. Like Append it shares a transaction with other writes and waits for its commit.
func (s *Store) Cancel(ctx context.Context, judged session.Session, c session.CancelRequest) (session.Outcome, error) {
	rows, err := storeflow.Encode("cancel", judged, c.Events, encode)
	if err != nil {
		return "", err
	}
	return s.judged(ctx, "cancel", judged, c.By, 1+len(rows), func(t *transaction, _ time.Time) session.Outcome {
		outcome := t.cancelJudged(judged, c)
		if outcome == session.Done {
			t.insertEvents(rows)
		}
		return outcome
	})
}

func (t *transaction) cancelJudged(judged session.Session, c session.CancelRequest) session.Outcome {
	if t.storedEnd(judged, storeflow.EndID(c)) {
		return session.EndStored
	}
	var key, claim any
	if c.StartFor > 0 {
		key, claim = storeflow.EndID(c), storeflow.RoundUp(session.StartPause(c.StartFor))
	}
	t.noteEnd(judged)
	t.do(cancelRow, judged.RunID, judged.Attempt, "", string(c.Reason), c.Resumes, c.StopFailed, c.By, key, claim)
	return session.Done
}

// judged writes to the row of a session that is still as it was judged and that nobody else has claimed, or returns
// what became of it. A database that is locked for too long has nothing decided: the error wraps [session.ErrLocked].
func (s *Store) judged(
	ctx context.Context, doing string, judged session.Session, by string, size int,
	write func(t *transaction, now time.Time) session.Outcome,
) (session.Outcome, error) {
	return orLocked(changed(ctx, s, doing+" session "+judged.RunID, size, func(t *transaction) session.Outcome {
		now := t.now()
		if outcome := t.judge(judged, by, now); outcome != "" {
			return outcome
		}
		return write(t, now)
	}))
}

// judge returns what became of a session. The outcome is empty if it is as it was judged and free.
func (t *transaction) judge(judged session.Session, by string, now time.Time) session.Outcome {
	var taken bool
	found := t.look(judgeRow, []any{judged.RunID, judged.Attempt, nullTime(judged.LastEventAt), judged.Lease,
		int64(judged.Activity), by, formatTime(now), int64(judged.Silence)}, &taken)
	outcome, _ := storeflow.Judged{AsJudged: found, Locked: true, Free: !taken}.Outcome()
	return outcome
}

func (t *transaction) storedEnd(judged session.Session, id string) bool {
	var kind, payload sql.NullString
	if !t.look(selectStoredEnd, []any{id, event.AggregateType, judged.RunID}, &kind, &payload) {
		return false
	}
	end := event.Event{Type: kind.String, Payload: stripVersion(payload.String)}
	status, reason := session.StoredEnd(end)
	row := t.session(judged.RunID)
	t.noteEnd(judged)
	t.do(endRow, judged.RunID, judged.Attempt, "", string(status), string(reason),
		storeflow.NullJSON(session.StoredState(row.State, end)))
	return true
}

// CancelAll implements [session.BatchCanceller]. It decides about every session: SQLite locks no single row. If another
// program keeps the database locked for too long, the error wraps [session.ErrLocked], and nothing is decided.
func (s *Store) CancelAll(ctx context.Context, all []session.BatchedCancel) ([]session.Outcome, error) {
	rows, size := make([][]row, len(all)), 1
	for i, c := range all {
		var err error
		if rows[i], err = storeflow.Encode("cancel", c.Judged, c.Request.Events, encode); err != nil {
			return nil, err
		}
		size += 1 + len(rows[i])
	}
	doing := fmt.Sprintf("cancel %d sessions", len(all))
	return orLocked(changed(ctx, s, doing, size, func(t *transaction) []session.Outcome {
		now, outcomes := t.now(), make([]session.Outcome, len(all))
		var done []row
		for i, c := range all {
			if outcomes[i] = t.judge(c.Judged, c.Request.By, now); outcomes[i] == "" {
				outcomes[i] = t.cancelJudged(c.Judged, c.Request)
			}
			if outcomes[i] == session.Done {
				done = append(done, rows[i]...)
			}
		}
		t.insertEvents(done)
		return outcomes
	}))
}

const (
	// isToStart is the condition of a partial index. A query must repeat it word for word to use the index.
	isToStart = `start_due IS NOT NULL AND status = 'cancelled'`

	// selectDueStart also finds a start that would be due so late, ?1 from now, that the clock has been set back since.
	selectDueStart = `SELECT ` + databaseMicros + `, coalesce((
		SELECT run_id FROM main.watchdog_sessions INDEXED BY watchdog_sessions_start
		WHERE ` + isToStart + ` AND start_due <= ` + databaseMicros + ` ORDER BY start_due, run_id LIMIT 1), (
		SELECT run_id FROM main.watchdog_sessions INDEXED BY watchdog_sessions_start
		WHERE ` + isToStart + ` AND start_due > ` + databaseMicros + ` + ?1 ORDER BY start_due, run_id LIMIT 1))`

	claimStart = `UPDATE main.watchdog_sessions SET start_tries = start_tries + 1, start_due = ?2 WHERE run_id = ?1`

	putOffStart = `UPDATE main.watchdog_sessions SET start_due = CASE WHEN ?5 >= 0 THEN ` + databaseMicros + ` + ?5 END
	WHERE run_id = ?1 AND attempt = ?2 AND start_key = ?3 AND start_tries = ?4
		AND start_due IS NOT NULL AND +status = 'cancelled'`
)

// ClaimStart implements [session.Starts]. If none is due it writes nothing. What the row says does not keep it from
// being claimed.
func (s *Store) ClaimStart(ctx context.Context, lasts time.Duration) (claimed session.Session, err error) {
	row, err := changed(ctx, s, "claim a start", 1, func(t *transaction) (row string) { // empty if none is due
		var now int64
		var runID sql.NullString
		t.look(selectDueStart, []any{session.MaxStartPause.Microseconds()}, &now, &runID)
		if runID.Valid {
			t.do(claimStart, runID.String, now+storeflow.RoundUp(session.StartPause(lasts)))
			t.look(selectSession, []any{runID.String}, &row)
		}
		return row
	})
	if err != nil {
		return claimed, lockedError(err)
	}
	if row == "" {
		return claimed, fmt.Errorf("claim a start: %w is to be started now", session.ErrNotFound)
	}
	if claimed, err = readSession(row); err != nil {
		err = fmt.Errorf("claim a start: %w", err)
	}
	return claimed, err
}

// PutOffStart implements [session.Starts].
func (s *Store) PutOffStart(ctx context.Context, claimed session.Session, pause time.Duration) (bool, error) {
	doing := "put off the start of session " + claimed.RunID
	rows, err := changed(ctx, s, doing, 1, func(t *transaction) int64 {
		return t.do(putOffStart, claimed.RunID, claimed.Attempt, claimed.Start.Key, claimed.Start.Tries,
			storeflow.StartPause(pause))
	})
	return rows > 0, lockedError(err)
}
