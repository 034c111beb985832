package postgres

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// attachRow locks the existing row and changes it, if the lease lives. It keeps the lease from being expired meanwhile.
// If another process attaches to the same new run at this moment, its row conflicts but is not visible yet: then
// attachRow changes nothing, and the store repeats it. Of a row that was active its lease is told, and who listens.
const attachRow = `WITH living AS MATERIALIZED (
		SELECT id FROM SCHEMA.watchdog_leases WHERE id {=} $6::{text} AND expired IS NULL FOR KEY SHARE),
	allowed AS MATERIALIZED (SELECT 1 WHERE $6::{text} IS NULL OR EXISTS (SELECT FROM living)),
	before AS MATERIALIZED (
		SELECT * FROM SCHEMA.watchdog_sessions WHERE run_id {=} $1 AND EXISTS (SELECT FROM allowed) FOR UPDATE),
	after AS (
		INSERT INTO SCHEMA.watchdog_sessions AS s (run_id, parent, threshold, started_at, host, status, created_at, attempt,
			last_event_at, lease, state, allowance)
		SELECT $1, $2, $3::bigint, $4::{time}, $5, 'active', now.at, greatest(1, $8::bigint), now.at,
			$6, $7::{text}::pg_catalog.json, $10::bigint
		FROM (SELECT {now} AS at, pg_catalog.count(*) FROM before) AS now WHERE EXISTS (SELECT FROM allowed)
		ON CONFLICT (run_id) DO UPDATE SET
			parent = excluded.parent, threshold = excluded.threshold, started_at = excluded.started_at, host = excluded.host,
			status = 'active', reason = '', last_event_at = excluded.last_event_at, lease = excluded.lease,
			attempt = greatest(s.attempt {+} 1, $8::bigint), state = excluded.state, allowance = excluded.allowance,
			ended_at = NULL, activity = NULL, quiet_since = NULL, quiet_due = NULL, claim = NULL, claimed_until = NULL,
			stop_failed = NULL, warned_at = NULL, warned_lease = NULL, warned_beat = NULL, warned_last_event = NULL,
			expired_lease = NULL, lost = NULL, start_key = NULL, start_tries = NULL, start_due = NULL
		WHERE s.readable AND EXISTS (SELECT FROM before) AND ($8::bigint {=} 0 OR s.attempt {<} $8::bigint) RETURNING *
	), noticed AS (` + insertLeaseEnds + `SELECT s.lease, s.run_id, s.attempt FROM before AS s
		WHERE s.status {=} 'active' AND s.lease IS NOT NULL AND EXISTS (SELECT FROM after)` + unlessTold + `)
	SELECT EXISTS (SELECT FROM allowed), CASE WHEN b.status {=} 'active' AND a.run_id IS NOT NULL
		THEN pg_catalog.pg_notify($9::{text}, a.run_id)::{text} END, b.*, a.* FROM (VALUES (1)) AS one
	LEFT JOIN (SELECT` + sessionFields + `FROM before AS s) AS b ON true
	LEFT JOIN (SELECT` + sessionFields + `FROM after AS s) AS a ON true`

type attachedRow struct {
	allowed  bool
	notified *string
	was, is  sessionRow
}

func scanAttached(row pgx.CollectableRow) (r attachedRow, err error) {
	err = row.Scan(r.is.scanInto(r.was.scanInto(&r.allowed, &r.notified)...)...)
	return r, err
}

// Attach implements [session.Store]. If the row is unreadable, Attach leaves it as it is and returns an error that
// wraps [session.ErrUnreadable].
func (s *Store) Attach(ctx context.Context, run session.Session) (before, after session.Session, err error) {
	err = s.write(ctx, "attach to session "+run.RunID+" in", func(ctx context.Context) error {
		if run.Threshold < 0 {
			return fmt.Errorf("the threshold is %v; use a positive duration, 0 for the sweeper's, or watchdog.NoLimit",
				run.Threshold)
		}
		r, err := s.attach(ctx, run)
		if err == nil && r.was.exists() {
			before, err = r.was.Session()
		}
		after = before // the row has the attempt already
		if err == nil && r.is.exists() {
			after, err = r.is.Session()
		}
		return lockedError(err)
	})
	return before, after, err
}

func (s *Store) attach(ctx context.Context, run session.Session) (r attachedRow, err error) {
	for {
		r, err = queryRow(ctx, s, scanAttached, attachRow, s.attachArguments(run)...)
		switch {
		case err != nil:
			return r, err
		case !r.allowed:
			return r, storeflow.LeaseExpired(run.Lease)
		case r.is.exists(), r.was.exists() && !r.was.readable.Bool,
			run.Attempt > 0 && r.was.attempt.Int64 >= int64(run.Attempt):
			return r, nil
		}
	}
}

func (s *Store) attachArguments(run session.Session) []any {
	lease, allowance := storeflow.LeaseOf(run)
	return []any{
		run.RunID, run.Parent, int64(run.Threshold), storeflow.Truncate(run.StartedAt), run.Host, lease,
		storeflow.NullJSON(run.State), int64(run.Attempt), s.channel(), allowance}
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
		WHERE ` + isCurrent + ` ORDER BY f.run_id FOR NO KEY UPDATE OF s SKIP LOCKED)`
	// A row that was not kept is either not this attempt's, or locked. There is always a row: the lease lives or not.
	selectSkipped = `, skipped.* FROM (VALUES (1)) AS one LEFT JOIN (
		SELECT f.run_id, EXISTS (SELECT FROM SCHEMA.watchdog_sessions AS s WHERE s.run_id {=} f.run_id AND ` + isCurrent + `)
		FROM (SELECT run_id, attempt FROM wanted EXCEPT SELECT run_id, attempt FROM kept) AS f) AS skipped ON true`
	// isLate is whether the row has a later activity, of a statement that overtook this one.
	isLate    = `s.lease {=} $1::{text} AND coalesce(s.activity, -1) {>} f.activity`
	isQuieted = `f.quiet AND f.activity {>=} 0`
	// ownSilence is how long the run may be silent by itself: its allowance, or the row's own threshold.
	ownSilence = `CASE WHEN f.allowance {>} 0 THEN f.allowance ELSE s.threshold END`
	// roundedUp is f.activity in whole microseconds, and roundedDue the sum of it and ownSilence.
	roundedUp  = `(f.activity {+} 999) {/} 1000 {*} 1000`
	roundedDue = `CASE WHEN (` + ownSilence + `) {<} (9223372036854774000 {-} f.activity)
		THEN (f.activity {+} ` + ownSilence + ` {+} 999) {/} 1000 {*} 1000 ELSE 9223372036854775000 END`

	freshenRows = `WITH living AS MATERIALIZED (
		SELECT id FROM SCHEMA.watchdog_leases WHERE id {=} $1::{text} AND expired IS NULL FOR KEY SHARE),
	wanted AS MATERIALIZED (SELECT DISTINCT ON (run_id, attempt) *
		FROM unnest($2::{text}[], $3::bigint[], $4::bigint[], $5::boolean[], $6::{text}[], $7::bigint[])
			WITH ORDINALITY AS f (run_id, attempt, activity, quiet, state, allowance, place)
		WHERE EXISTS (SELECT FROM living) ORDER BY run_id, attempt, activity DESC, place DESC),
	` + lockRows + `, kept AS (UPDATE SCHEMA.watchdog_sessions AS s SET
			lease = $1::{text}, expired_lease = NULL, lost = NULL,
			allowance = CASE WHEN ` + isLate + ` THEN s.allowance WHEN f.allowance {>} 0 THEN f.allowance END,
			activity = CASE WHEN ` + isLate + ` THEN s.activity WHEN f.activity {>=} 0 THEN f.activity END,
			quiet_since = CASE WHEN ` + isLate + ` THEN s.quiet_since
				WHEN ` + isQuieted + ` AND (` + ownSilence + `) {=} 0 THEN ` + roundedUp + ` END,
			quiet_due = CASE WHEN ` + isLate + ` THEN s.quiet_due
				WHEN ` + isQuieted + ` AND (` + ownSilence + `) {>} 0 THEN ` + roundedDue + ` END,
			state = CASE WHEN ` + isLate + ` OR f.state IS NULL THEN s.state ELSE f.state::pg_catalog.json END
		FROM locked AS f WHERE s.run_id {=} f.run_id AND ` + isCurrent + ` RETURNING s.run_id, s.attempt
	) SELECT EXISTS (SELECT FROM living)` + selectSkipped

	endRows = `WITH wanted AS MATERIALIZED (SELECT DISTINCT ON (run_id, attempt) *
		FROM unnest($1::{text}[], $2::bigint[], $3::{text}[], $4::{text}[], $5::bigint[], $6::{text}[])
			WITH ORDINALITY AS e (run_id, attempt, status, reason, age, state, place) ORDER BY run_id, attempt, place),
	` + lockRows + `, kept AS (UPDATE SCHEMA.watchdog_sessions AS s
		SET status = f.status, reason = f.reason, stop_failed = NULL, state = coalesce(f.state::pg_catalog.json, s.state),
			last_event_at = greatest(s.last_event_at, ` + ofLastSign + `, {now} {-} (f.age {*} {microsecond})),
			ended_at = {now},` + leaveLease + `
		FROM locked AS f WHERE s.run_id {=} f.run_id AND ` + isCurrent + ` RETURNING s.run_id, s.attempt
	) SELECT true` + selectSkipped
)

// Freshen implements [session.Store], in one round trip unless a row is refused. While it runs, the lease cannot
// expire.
func (s *Store) Freshen(ctx context.Context, lease string, fresh []session.Freshness) (session.Skipped, error) {
	runOf := func(f session.Freshness) string { return f.RunID }
	doing := fmt.Sprintf("freshen %d sessions in", len(fresh))
	return answer(ctx, s.write, doing, func(ctx context.Context) (session.Skipped, error) {
		return writeRows(fresh, runOf, func(part []session.Freshness) ([]skippedRow, error) {
			rows, err := s.writeSkipping(ctx, freshenRows, len(part), freshenArguments(lease, part)...)
			if err == nil && !rows[0].Living {
				err = storeflow.LeaseExpired(lease)
			}
			return rows, err
		})
	})
}

func freshenArguments(lease string, fresh []session.Freshness) []any {
	runIDs, attempts, activities := make([]string, len(fresh)), make([]int64, len(fresh)), make([]int64, len(fresh))
	quiet, states := make([]bool, len(fresh)), make([]*string, len(fresh))
	allowances := make([]int64, len(fresh))
	for i, f := range fresh {
		runIDs[i], attempts[i], activities[i] = f.RunID, int64(f.Attempt), int64(f.Activity)
		quiet[i], states[i] = f.Quiet, storeflow.NullJSON(f.State)
		allowances[i] = int64(f.Allowance)
	}
	return []any{lease, runIDs, attempts, activities, quiet, states, allowances}
}

// End implements [session.Store], in one round trip unless a row is refused. If an ending is invalid
// ([session.Ending.Validate]), End writes nothing and returns the error.
func (s *Store) End(ctx context.Context, ends []session.Ending) (skipped session.Skipped, err error) {
	if err := storeflow.FirstInvalid(ends); err != nil {
		return session.Skipped{}, err
	}
	runOf := func(e session.Ending) string { return e.RunID }
	err = s.write(ctx, fmt.Sprintf("end %d sessions in", len(ends)), func(ctx context.Context) (err error) {
		if len(ends) == 0 {
			return nil
		}
		skipped, err = writeRows(ends, runOf, func(part []session.Ending) ([]skippedRow, error) {
			return s.writeSkipping(ctx, endRows, len(part), endArguments(part)...)
		})
		return err
	})
	skipped.Gone = nil
	return skipped, err
}

func endArguments(ends []session.Ending) []any {
	runIDs, attempts, ages := make([]string, len(ends)), make([]int64, len(ends)), make([]int64, len(ends))
	statuses, reasons := make([]string, len(ends)), make([]string, len(ends))
	states := make([]*string, len(ends))
	for i, e := range ends {
		runIDs[i], attempts[i], ages[i] = e.RunID, int64(e.Attempt), storeflow.RoundUp(e.Age)
		statuses[i], reasons[i], states[i] = string(e.Status), string(e.Reason), storeflow.NullJSON(e.State)
	}
	return []any{runIDs, attempts, statuses, reasons, ages, states}
}

// A skippedRow is a row that was not written: it is locked, or else gone. Without a run it tells of the lease alone.
type skippedRow struct {
	Living bool
	RunID  *string
	Locked *bool
}

// writeRows writes a batch, and the parts of it that hold a row which the server refuses.
func writeRows[E any](
	batch []E, runOf func(E) string, write func([]E) ([]skippedRow, error),
) (skipped session.Skipped, err error) {
	skipped.Failed, err = storeflow.WriteEach(batch, runOf, func(part []E) error {
		rows, err := write(part)
		for _, r := range rows {
			switch {
			case r.RunID == nil:
			case *r.Locked:
				skipped.Locked = append(skipped.Locked, *r.RunID)
			default:
				skipped.Gone = append(skipped.Gone, *r.RunID)
			}
		}
		return err
	}, isRefusal)
	slices.Sort(skipped.Gone)
	slices.Sort(skipped.Locked)
	skipped.Gone, skipped.Locked = slices.Compact(skipped.Gone), slices.Compact(skipped.Locked)
	return skipped, err
}

// joinOnce has the planner join a table of which it believes that it has no rows in one pass over it. It believes so
// after a vacuum of an emptied table that could not be shortened, whatever its size is since, until the next analyze.
// Then no index seems cheaper than another, and each of ten thousand rows was looked up by one that begins with another
// column, and so has to be read from end to end: seconds instead of a tenth of one.
//
// Rejected: joinOnce for every batch, because a pass over a large table takes longer than the look-ups; looking up the
// rows that are locked by their ctid, which does not find one that was changed while the statement waited for it.
const joinOnce = `SELECT pg_catalog.set_config('enable_nestloop', 'off', true)
	FROM pg_catalog.pg_class AS c JOIN pg_catalog.pg_namespace AS n ON n.oid {=} c.relnamespace
	WHERE n.nspname {=} $1 AND c.relname {=} 'watchdog_sessions' AND c.reltuples {=} 0`

// writeSkipping writes rows and returns those that it skipped. If it is given one row, and that is locked, it waits.
func (s *Store) writeSkipping(
	ctx context.Context, statement string, rows int, arguments ...any,
) (skipped []skippedRow, err error) {
	write := reading(s, &skipped, pgx.RowToStructByPos[skippedRow], statement, arguments...)
	err = s.together(ctx, running(s, joinOnce, s.schema), write)
	if err != nil || rows != 1 || skipped[0].RunID == nil || !*skipped[0].Locked {
		return skipped, err
	}
	waiting := strings.Replace(statement, " SKIP LOCKED", "", 1)
	waited, err := query(ctx, s, pgx.RowToStructByPos[skippedRow], waiting, arguments...)
	if codeOf(err) == lockNotAvailable {
		return skipped, nil
	}
	return waited, err
}
