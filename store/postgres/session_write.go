package postgres

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

// attachRow locks the existing row and changes it. If another process attaches to the same new run at this moment,
// its row conflicts but is not visible yet: then attachRow changes nothing, and the store repeats it.
const attachRow = `
	WITH before AS MATERIALIZED (
		SELECT * FROM SCHEMA.watchdog_sessions WHERE run_id {=} $1 FOR UPDATE
	), after AS (
		INSERT INTO SCHEMA.watchdog_sessions AS s
			(run_id, parent, threshold, started_at, host, status, created_at, attempt, last_event_at)
		SELECT $1, $2, $3::bigint, $4::pg_catalog.timestamptz, $5, 'active', now.at, 1, now.at
		FROM (SELECT pg_catalog.statement_timestamp() AS at, pg_catalog.count(*) FROM before) AS now
		ON CONFLICT (run_id) DO UPDATE SET
			parent = excluded.parent, threshold = excluded.threshold, started_at = excluded.started_at, host = excluded.host,
			status = 'active', reason = '', last_event_at = excluded.last_event_at, attempt = s.attempt {+} 1
		WHERE s.readable AND EXISTS (SELECT FROM before)
		RETURNING *
	)
	SELECT b.*, a.* FROM (VALUES (1)) AS one
	LEFT JOIN (SELECT` + sessionFields + `FROM before) AS b ON true
	LEFT JOIN (SELECT` + sessionFields + `FROM after) AS a ON true`

// Attach implements [session.Store]. If the row is unreadable, Attach leaves it as it is and returns an error that
// wraps [session.ErrUnreadable].
func (s *Store) Attach(ctx context.Context, run session.Session) (before, after session.Session, err error) {
	err = s.do(ctx, "attach to session "+run.RunID+" in", func(ctx context.Context) error {
		if run.Threshold < 0 {
			return fmt.Errorf("the threshold is %v; use a positive duration, 0 for the sweeper's, or watchdog.NoLimit",
				run.Threshold)
		}
		was, is, err := s.attach(ctx, run)
		if err != nil {
			return err
		}
		if was.runID.Valid {
			before, err = was.session()
		}
		if err == nil {
			after, err = is.session()
		}
		return err
	})
	return before, after, err
}

func (s *Store) attach(ctx context.Context, run session.Session) (was, is sessionRow, err error) {
	for !is.runID.Valid && err == nil {
		err = s.onConn(ctx, func(conn *pgxpool.Conn) error {
			return conn.QueryRow(ctx, s.qualify(attachRow), s.withMode(
				run.RunID, run.Parent, int64(run.Threshold), record.Truncate(run.StartedAt), run.Host)...).
				Scan(is.scanInto(was.scanInto()...)...)
		})
		if err == nil && was.runID.Valid && !was.readable.Bool {
			err = unreadable(run.RunID)
		}
	}
	return was, is, err
}

// A batch takes its rows in the order of their keys and leaves those alone that others have locked, so that it waits
// for no lock and is part of no deadlock. A row alone waits: see writeSkipping.
//
// The form makes the planner look up each row by its key, whatever it assumes about the list or the table: it expects
// few groups, and cannot estimate what is inside coalesce. Without coalesce it assumed, before the table was analyzed,
// that few rows have attempt 1, and scanned the whole list for each row: 40 s for ten thousand.
const (
	isCurrent = `coalesce(s.attempt {=} f.attempt AND s.status {=} 'active', false)`

	lockRows = `locked AS MATERIALIZED (
		SELECT f.* FROM wanted AS f JOIN SCHEMA.watchdog_sessions AS s ON s.run_id {=} f.run_id
		WHERE ` + isCurrent + ` ORDER BY f.run_id FOR NO KEY UPDATE OF s SKIP LOCKED
	)`

	// A row that was not kept is either not this attempt's, or locked.
	selectSkipped = `
	SELECT f.run_id, EXISTS (SELECT FROM SCHEMA.watchdog_sessions AS s WHERE s.run_id {=} f.run_id AND ` + isCurrent + `)
	FROM (SELECT run_id, attempt FROM wanted EXCEPT SELECT run_id, attempt FROM kept) AS f`

	freshenRows = `
	WITH wanted AS MATERIALIZED (
		SELECT f.run_id, f.attempt, pg_catalog.min(f.age) AS age
		FROM unnest($1::pg_catalog.text[], $2::bigint[], $3::bigint[]) AS f (run_id, attempt, age) GROUP BY 1, 2
	), ` + lockRows + `, kept AS (
		UPDATE SCHEMA.watchdog_sessions AS s
		SET last_event_at = greatest(
			s.last_event_at, pg_catalog.statement_timestamp() {-} (f.age {*} interval '1 microsecond'))
		FROM locked AS f WHERE s.run_id {=} f.run_id AND ` + isCurrent + `
		RETURNING s.run_id, s.attempt
	)` + selectSkipped

	endRows = `
	WITH wanted AS MATERIALIZED (
		SELECT DISTINCT ON (run_id, attempt) *
		FROM unnest($1::pg_catalog.text[], $2::bigint[], $3::pg_catalog.text[], $4::pg_catalog.text[])
			WITH ORDINALITY AS e (run_id, attempt, status, reason, place)
		ORDER BY run_id, attempt, place
	), ` + lockRows + `, kept AS (
		UPDATE SCHEMA.watchdog_sessions AS s
		SET status = f.status, reason = f.reason, ended_at = pg_catalog.statement_timestamp(),
			ended = pg_catalog.pg_current_xact_id()
		FROM locked AS f WHERE s.run_id {=} f.run_id AND ` + isCurrent + `
		RETURNING s.run_id, s.attempt
	)` + selectSkipped
)

// Freshen implements [session.Store], in one round trip unless a row is refused.
func (s *Store) Freshen(ctx context.Context, fresh []session.Freshness) (skipped session.Skipped, err error) {
	runOf := func(f session.Freshness) string { return f.RunID }
	err = s.do(ctx, fmt.Sprintf("freshen %d sessions in", len(fresh)), func(ctx context.Context) (err error) {
		skipped, err = writeRows(fresh, runOf, func(part []session.Freshness) ([]skippedRow, error) {
			runIDs, attempts, ages := make([]string, len(part)), make([]int64, len(part)), make([]int64, len(part))
			for i, f := range part {
				runIDs[i], attempts[i], ages[i] = f.RunID, int64(f.Attempt), f.Age.Microseconds()
			}
			return s.writeSkipping(ctx, freshenRows, len(part), runIDs, attempts, ages)
		})
		return err
	})
	return skipped, err
}

// End implements [session.Store], in one round trip unless a row is refused. If an ending is invalid
// ([session.Ending.Validate]), End writes nothing and returns the error.
func (s *Store) End(ctx context.Context, ends []session.Ending) (skipped session.Skipped, err error) {
	for _, e := range ends {
		if err := e.Validate(); err != nil {
			return session.Skipped{}, err
		}
	}
	runOf := func(e session.Ending) string { return e.RunID }
	err = s.do(ctx, fmt.Sprintf("end %d sessions in", len(ends)), func(ctx context.Context) (err error) {
		skipped, err = writeRows(ends, runOf, func(part []session.Ending) ([]skippedRow, error) {
			runIDs, attempts := make([]string, len(part)), make([]int64, len(part))
			statuses, reasons := make([]string, len(part)), make([]string, len(part))
			for i, e := range part {
				runIDs[i], attempts[i], statuses[i], reasons[i] = e.RunID, int64(e.Attempt), string(e.Status), string(e.Reason)
			}
			return s.writeSkipping(ctx, endRows, len(part), runIDs, attempts, statuses, reasons)
		})
		return err
	})
	skipped.Gone = nil
	return skipped, err
}

// A skippedRow is a row that was not written: it is locked, or else gone.
type skippedRow struct {
	RunID  string
	Locked bool
}

// writeRows writes a batch, and the parts of it that hold a row which the server refuses.
func writeRows[E any](
	batch []E, runOf func(E) string, write func([]E) ([]skippedRow, error),
) (skipped session.Skipped, err error) {
	if len(batch) == 0 {
		return skipped, nil
	}
	skipped.Refused, err = storerows.WriteEach(batch, runOf, func(part []E) error {
		rows, err := write(part)
		for _, r := range rows {
			if r.Locked {
				skipped.Locked = append(skipped.Locked, r.RunID)
			} else {
				skipped.Gone = append(skipped.Gone, r.RunID)
			}
		}
		return err
	}, isRefusal)
	slices.Sort(skipped.Gone)
	slices.Sort(skipped.Locked)
	skipped.Gone, skipped.Locked = slices.Compact(skipped.Gone), slices.Compact(skipped.Locked)
	return skipped, err
}

// writeSkipping writes rows and returns those that it skipped. If it is given one row, and that is locked, it waits.
func (s *Store) writeSkipping(
	ctx context.Context, statement string, rows int, arguments ...any,
) (skipped []skippedRow, err error) {
	skipped, err = query(ctx, s, pgx.RowToStructByPos[skippedRow], statement, arguments...)
	if err != nil || rows > 1 || len(skipped) == 0 || !skipped[0].Locked {
		return skipped, err
	}
	var waited []skippedRow
	err = s.onConn(ctx, func(conn *pgxpool.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) (err error) {
			waited, err = s.writeWaiting(ctx, tx, statement, arguments)
			return err
		})
	})
	if codeOf(err) == lockNotAvailable {
		return skipped, nil
	}
	return waited, err
}

// writeWaiting runs a statement that waits for locks, instead of skipping what is locked.
func (s *Store) writeWaiting(ctx context.Context, tx pgx.Tx, statement string, arguments []any) ([]skippedRow, error) {
	_, err := tx.Exec(ctx, `SELECT pg_catalog.set_config('lock_timeout', $1, true)`,
		s.withMode(strconv.FormatInt(session.LockWait.Milliseconds(), 10))...)
	if err != nil {
		return nil, err
	}
	waiting := strings.Replace(statement, " SKIP LOCKED", "", 1)
	rows, err := tx.Query(ctx, s.qualify(waiting), s.withMode(arguments...)...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[skippedRow])
}

// cancelRow is one statement and so one transaction. Listeners get the notification when it commits. It returns a row
// for a session that is as it was judged, and in it whether the session was cancelled: else its row is locked.
const cancelRow = `
	WITH judged AS MATERIALIZED (
		SELECT run_id FROM SCHEMA.watchdog_sessions WHERE ` + asJudged + `
	), locked AS MATERIALIZED (
		SELECT run_id FROM SCHEMA.watchdog_sessions WHERE ` + asJudged + ` FOR NO KEY UPDATE SKIP LOCKED
	), cancelled AS (
		UPDATE SCHEMA.watchdog_sessions
		SET status = 'cancelled', reason = $11, resumes = $12, ended_at = pg_catalog.statement_timestamp(),
			ended = pg_catalog.pg_current_xact_id()
		WHERE ` + asJudged + ` AND EXISTS (SELECT FROM locked)
		RETURNING run_id
	), recorded AS (` + insertRows + ` WHERE EXISTS (SELECT FROM cancelled)` + insertOrder + `)
	SELECT EXISTS (SELECT FROM cancelled), (SELECT pg_catalog.pg_notify($13, run_id) FROM cancelled)::pg_catalog.text
	FROM judged`

const asJudged = `run_id {=} $8 AND attempt {=} $9 AND status {=} 'active' AND readable
			AND coalesce(last_event_at {=} $10::pg_catalog.timestamptz, last_event_at IS NULL AND $10 IS NULL)`

// A cancelledRow is a session that is as it was judged: it was cancelled, or is locked.
type cancelledRow struct {
	Done     bool
	Notified *string
}

// Cancel implements [session.Store], in one round trip. If the context ends or the connection breaks, the session may
// still be cancelled; a repeated call then returns false.
func (s *Store) Cancel(
	ctx context.Context, judged session.Session, c session.CancelRequest,
) (cancelled bool, err error) {
	columns, err := encode(c.Events)
	if err != nil {
		return false, fmt.Errorf("cancel session %s: %w", judged.RunID, err)
	}
	err = s.do(ctx, "cancel session "+judged.RunID+" in", func(ctx context.Context) error {
		judgedRows, err := query(ctx, s, pgx.RowToStructByPos[cancelledRow], cancelRow, append(columns[:],
			judged.RunID, judged.Attempt, nullTime(judged.LastEventAt), string(c.Reason), c.Resumes, s.channel())...)
		cancelled = len(judgedRows) > 0 && judgedRows[0].Done
		if err == nil && len(judgedRows) > 0 && !cancelled {
			err = session.ErrLocked
		}
		return err
	})
	return cancelled && err == nil, err
}
