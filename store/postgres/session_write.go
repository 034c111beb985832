package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed62658d38/watchdog/internal/record"
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

// freshenRows writes newer times, and returns the runs that are gone. Its form makes the planner look up each row by
// its key, whatever it assumes about the list or the table: the planner expects few groups, and cannot estimate what
// is inside coalesce. Without coalesce it assumed, before the table was analyzed, that few rows have attempt 1, and
// scanned the whole list for each row: 40 s for ten thousand.
const freshenRows = `
	WITH fresh AS MATERIALIZED (
		SELECT f.run_id, f.attempt, pg_catalog.min(f.age) AS age
		FROM unnest($1::pg_catalog.text[], $2::bigint[], $3::bigint[]) AS f (run_id, attempt, age) GROUP BY 1, 2
	), kept AS (
		UPDATE SCHEMA.watchdog_sessions AS s
		SET last_event_at = greatest(
			s.last_event_at, pg_catalog.statement_timestamp() {-} (f.age {*} interval '1 microsecond'))
		FROM fresh AS f
		WHERE s.run_id {=} f.run_id AND coalesce(s.attempt {=} f.attempt AND s.status {=} 'active', false)
		RETURNING s.run_id, s.attempt
	)
	SELECT DISTINCT gone.run_id FROM (SELECT run_id, attempt FROM fresh EXCEPT SELECT run_id, attempt FROM kept) AS gone`

// Freshen implements [session.Store], in one round trip.
func (s *Store) Freshen(ctx context.Context, fresh []session.Freshness) (gone []string, err error) {
	runIDs, attempts, ages := make([]string, len(fresh)), make([]int64, len(fresh)), make([]int64, len(fresh))
	for i, f := range fresh {
		runIDs[i], attempts[i], ages[i] = f.RunID, int64(f.Attempt), f.Age.Microseconds()
	}
	err = s.do(ctx, fmt.Sprintf("freshen %d sessions in", len(fresh)), func(ctx context.Context) (err error) {
		if len(fresh) > 0 {
			gone, err = query(ctx, s, pgx.RowTo[string], freshenRows, runIDs, attempts, ages)
		}
		return err
	})
	return gone, err
}

// endRows has the form of freshenRows, for the same reason.
const endRows = `
	UPDATE SCHEMA.watchdog_sessions AS s
	SET status = e.status, reason = e.reason, ended_at = pg_catalog.statement_timestamp(),
		ended = pg_catalog.pg_current_xact_id()
	FROM (
		SELECT DISTINCT ON (run_id, attempt) *
		FROM unnest($1::pg_catalog.text[], $2::bigint[], $3::pg_catalog.text[], $4::pg_catalog.text[])
			WITH ORDINALITY AS e (run_id, attempt, status, reason, place)
		ORDER BY run_id, attempt, place
	) AS e
	WHERE s.run_id {=} e.run_id AND coalesce(s.attempt {=} e.attempt AND s.status {=} 'active', false)`

// End implements [session.Store], in one round trip. If an ending is invalid ([session.Ending.Validate]), End writes
// nothing and returns the error.
func (s *Store) End(ctx context.Context, ends []session.Ending) error {
	runIDs, attempts := make([]string, len(ends)), make([]int64, len(ends))
	statuses, reasons := make([]string, len(ends)), make([]string, len(ends))
	for i, e := range ends {
		if err := e.Validate(); err != nil {
			return err
		}
		runIDs[i], attempts[i], statuses[i], reasons[i] = e.RunID, int64(e.Attempt), string(e.Status), string(e.Reason)
	}
	return s.do(ctx, fmt.Sprintf("end %d sessions in", len(ends)), func(ctx context.Context) error {
		if len(ends) == 0 {
			return nil
		}
		_, err := s.exec(ctx, endRows, runIDs, attempts, statuses, reasons)
		return err
	})
}

// cancelRow is one statement and so one transaction. Listeners get the notification when it commits.
const cancelRow = `
	WITH cancelled AS (
		UPDATE SCHEMA.watchdog_sessions
		SET status = 'cancelled', reason = $11, resumes = $12, ended_at = pg_catalog.statement_timestamp(),
			ended = pg_catalog.pg_current_xact_id()
		WHERE run_id {=} $8 AND attempt {=} $9 AND status {=} 'active' AND readable
			AND coalesce(last_event_at {=} $10::pg_catalog.timestamptz, last_event_at IS NULL AND $10 IS NULL)
		RETURNING run_id
	), recorded AS (` + insertRows + ` WHERE EXISTS (SELECT FROM cancelled)` + insertOrder + `)
	SELECT pg_catalog.pg_notify($13, run_id) FROM cancelled`

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
		rows, err := s.exec(ctx, cancelRow, append(columns[:],
			judged.RunID, judged.Attempt, nullTime(judged.LastEventAt), string(c.Reason), c.Resumes, s.channel())...)
		cancelled = rows == 1
		return err
	})
	return cancelled && err == nil, err
}
