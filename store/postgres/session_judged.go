package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// lockJudged locks the row of a session that is still as it was judged, and whose lease has not expired: $1 to $5. If
// the lease names it as behind, it must have been silent for as long, $7, up to its own instant. That must be more than
// its allowance. It is free if nobody but $6 has claimed it.
const (
	asJudged = `s.run_id {=} $1 AND s.attempt {=} $2 AND s.status {=} 'active' AND s.readable
			AND coalesce(s.last_event_at {=} $3::{time}, s.last_event_at IS NULL AND $3 IS NULL)
			AND coalesce(s.lease, '') {=} $4::{text} AND ($7::bigint {<=} 0 OR coalesce(s.allowance, 0) {<} $7::bigint)
			AND ($4::{text} {=} '' OR coalesce(s.activity, -1) {=} $5::bigint AND NOT EXISTS (
				SELECT FROM SCHEMA.watchdog_leases AS l WHERE l.id {=} $4::{text} AND (l.expired IS NOT NULL
					OR $7::bigint {>} 0 AND ` + ofBehind + ` {-} s.activity {<} $7::bigint)))`

	lockJudged = `WITH judged AS MATERIALIZED (
		SELECT s.run_id FROM SCHEMA.watchdog_sessions AS s WHERE ` + asJudged + `), locked AS MATERIALIZED (
		SELECT s.run_id, (coalesce(s.claim, '') {=} $6::{text} OR coalesce(s.claimed_until {<=} {now}, true)) AS free,
			` + isStopped + ` AS stopped
		FROM SCHEMA.watchdog_sessions AS s WHERE ` + asJudged + ` FOR NO KEY UPDATE OF s SKIP LOCKED
	), free AS MATERIALIZED (SELECT run_id, stopped FROM locked WHERE free)`

	selectJudged = ` SELECT EXISTS (SELECT FROM judged), EXISTS (SELECT FROM locked), EXISTS (SELECT FROM free)`
)

// claimRow claims a session if its end is not stored. One whose agents were stopped is not as it was judged if $10 does
// not say so. It notes whether that failed, $11, unless that is NULL.
const claimRow = lockJudged + `, done AS (
		UPDATE SCHEMA.watchdog_sessions AS s SET claim = $6::{text}, claimed_until = {now} {+} ($8::bigint {*} {microsecond}),
			warned_at = ` + stillWarned + `, stop_failed = coalesce($11::boolean, ` + stillStopped + `),` + noteSigns + `
		WHERE s.run_id {=} $1 AND EXISTS (SELECT FROM free WHERE stopped {=} $10::boolean)
			AND NOT EXISTS (SELECT FROM SCHEMA.events WHERE id {=} $9::{text}) RETURNING s.run_id
	) SELECT EXISTS (SELECT FROM judged) AND NOT EXISTS (SELECT FROM locked WHERE stopped {<>} $10::boolean),
		EXISTS (SELECT FROM locked), EXISTS (SELECT FROM free), EXISTS (SELECT FROM done)`

// What was noted before noteSigns, unless it is void.
const (
	stillWarned  = `CASE WHEN ` + isNoted + ` THEN s.warned_at END`
	stillStopped = `CASE WHEN ` + isNoted + ` THEN s.stop_failed END`
)

// warnRow notes what the session is like, so that any sign of life makes the warning void. It and the next are put
// together when they are used first, because every program that imports the package would wait for it as it starts.
var warnRow = sync.OnceValue(func() string {
	return lockJudged + `, recorded AS (` + shifted(insertRows, 7) + ` WHERE EXISTS (SELECT FROM free)` + insertOrder +
		`), done AS (
		UPDATE SCHEMA.watchdog_sessions AS s SET warned_at = {now}, stop_failed = ` + stillStopped + `,` + noteSigns + `
		WHERE s.run_id {=} $1 AND EXISTS (SELECT FROM free) RETURNING s.run_id
	)` + selectJudged + `, EXISTS (SELECT FROM done)`
})

// cancelRow inserts the end event, which is the last, and does the rest only if no event had its ID. It is one
// statement and so one transaction. Listeners get the notification when it commits.
var cancelRow = sync.OnceValue(func() string {
	insert := shifted(insertRows, 7)
	return lockJudged + `, ended AS (` + insert +
		` WHERE e.place {=} pg_catalog.cardinality($8::{text}[]) AND EXISTS (SELECT FROM free)` +
		insertOrder + ` RETURNING id), recorded AS (` + insert +
		` WHERE e.place {<} pg_catalog.cardinality($8::{text}[]) AND EXISTS (SELECT FROM ended)` +
		insertOrder + `), done AS (
		UPDATE SCHEMA.watchdog_sessions AS s SET status = 'cancelled', reason = $15, resumes = $16, stop_failed = $17,
			claim = $6::{text}, last_event_at = greatest(s.last_event_at, ` + ofLastSign + `),
			ended_at = {now},` + leaveLease + `,` + wantStart + `
		WHERE s.run_id {=} $1 AND EXISTS (SELECT FROM ended) RETURNING s.run_id
	), noticed AS (` + noticeJudged + `)` + selectJudged + `, EXISTS (SELECT FROM done),
		(SELECT pg_catalog.pg_notify($18::{text}, run_id) FROM done)::{text}`
})

// shifted returns a part of a statement with its parameters numbered from a later one on.
func shifted(part string, by int) string {
	return regexp.MustCompile(`\$\d+`).ReplaceAllStringFunc(part, func(parameter string) string {
		number, _ := strconv.Atoi(parameter[1:]) // it has digits
		return "$" + strconv.Itoa(number+by)
	})
}

// scanJudged also skips what a notification returns.
func scanJudged(row pgx.CollectableRow) (j storeflow.Judged, err error) {
	into := []any{&j.AsJudged, &j.Locked, &j.Free, &j.Done, nil}
	err = row.Scan(into[:len(row.RawValues())]...)
	return j, err
}

func judgedArguments(judged session.Session, by string) []any {
	return []any{
		judged.RunID, judged.Attempt, nullTime(judged.LastEventAt), judged.Lease, int64(judged.Activity), by,
		int64(judged.Silence)}
}

// Claim implements [session.Store], in one round trip unless the end is stored.
func (s *Store) Claim(ctx context.Context, judged session.Session, c session.ClaimRequest) (session.Outcome, error) {
	return s.ofJudged(ctx, "claim", judged, c.By, c.EndID, claimRow, claimArguments(judged, c))
}

func claimArguments(judged session.Session, c session.ClaimRequest) []any {
	return append(judgedArguments(judged, c.By),
		storeflow.RoundUp(c.For), c.EndID, judged.Stopped, storeflow.StopFailed(c))
}

// Warn implements [session.Store], in one round trip.
func (s *Store) Warn(ctx context.Context, judged session.Session, events []event.Event) (session.Outcome, error) {
	columns, err := storeflow.Encode("warn", judged, events, encode)
	if err != nil {
		return "", err
	}
	return s.ofJudged(ctx, "warn", judged, "", "", warnRow(), append(judgedArguments(judged, ""), columns[:]...))
}

// Cancel implements [session.Store], in one round trip unless the end is stored. If the context ends or the connection
// breaks, the session may still be cancelled; a repeated call then returns [session.Changed]. If another transaction
// has written an event with the ID of the cancel event, and has not ended, Cancel waits for it for at most
// [session.LockWait].
func (s *Store) Cancel(ctx context.Context, judged session.Session, c session.CancelRequest) (session.Outcome, error) {
	statement, arguments, err := s.cancelStatement(judged, c)
	if err != nil {
		return "", err
	}
	return s.ofJudged(ctx, "cancel", judged, c.By, storeflow.EndID(c), statement, arguments)
}

func (s *Store) cancelStatement(judged session.Session, c session.CancelRequest) (string, []any, error) {
	columns, err := storeflow.Encode("cancel", judged, c.Events, encode)
	if err != nil {
		return "", nil, err
	}
	return cancelRow(), append(append(judgedArguments(judged, c.By), columns[:]...),
		string(c.Reason), c.Resumes, c.StopFailed, s.channel(), storeflow.RoundUp(session.StartPause(c.StartFor))), nil
}

// ofJudged runs a statement about a session that was judged. If the end kept it from that, it writes the end down.
func (s *Store) ofJudged(
	ctx context.Context, doing string, judged session.Session, by, endID, statement string, arguments []any,
) (outcome session.Outcome, err error) {
	const tries = 5
	err = s.write(ctx, doing+" session "+judged.RunID+" in", func(ctx context.Context) error {
		for range tries {
			row, err := queryRow(ctx, s, scanJudged, statement, arguments...)
			if err == nil {
				outcome, err = row.Outcome()
			}
			if err == nil && outcome == "" {
				outcome, err = s.writeStoredEnd(ctx, judged, by, endID)
			}
			if err != nil || outcome != "" {
				return err
			}
		}
		return fmt.Errorf("event %s is neither stored nor can it be: look for a trigger of the table events", endID)
	})
	if err != nil {
		outcome = ""
	}
	return outcome, err
}

const (
	lockOnly = lockJudged + selectJudged + `, false`

	selectEnd = `SELECT aggregate_type, aggregate_id,` + eventFields + `FROM SCHEMA.events WHERE id {=} $1`

	writeEnd = `WITH done AS (UPDATE SCHEMA.watchdog_sessions AS s SET status = $2, reason = $3, stop_failed = NULL,
			state = coalesce($5::{text}::pg_catalog.json, s.state),
			last_event_at = greatest(s.last_event_at, ` + ofLastSign + `),
			ended_at = {now},` + leaveLease + ` WHERE s.run_id {=} $1 RETURNING s.run_id
	), noticed AS (` + insertLeaseEnds + `SELECT $6::{text}, run_id, $7::bigint FROM done
		WHERE $6::{text} {<>} ''` + unlessTold + `)
	SELECT pg_catalog.pg_notify($4::{text}, run_id)::{text} FROM done`
)

// writeStoredEnd makes the row say what the stored end says. The outcome is empty if no end is stored. It reads the
// event in a statement of its own: the statement of an insert does not see an event that it waited for.
func (s *Store) writeStoredEnd(
	ctx context.Context, judged session.Session, by, endID string,
) (outcome session.Outcome, err error) {
	var rows []storeflow.Judged
	var ends []event.Event
	var found []sessionRow
	err = s.inTransaction(ctx, func(t *transaction) error {
		err := t.send(reading(s, &rows, scanJudged, lockOnly, judgedArguments(judged, by)...),
			reading(s, &ends, scanWhole, selectEnd, endID), reading(s, &found, scanSession, selectSession, judged.RunID))
		if err == nil {
			outcome, err = rows[0].Outcome()
		}
		if outcome != "" || err != nil || len(ends) == 0 || len(found) == 0 {
			return err
		}
		outcome = session.EndStored
		status, reason := session.StoredEnd(ends[0])
		state := session.StoredState(json.RawMessage(found[0].state.String), ends[0])
		return t.send(running(s, writeEnd, judged.RunID, string(status), string(reason),
			s.channel(), storeflow.NullJSON(state), judged.Lease, judged.Attempt))
	})
	return outcome, err
}

// CancelAll implements [session.BatchCanceller], in one round trip. About a session whose row is locked or whose end is
// stored it decides nothing. Waits for events are those of [Store.Cancel]; one that takes too long is the error of all.
func (s *Store) CancelAll(ctx context.Context, all []session.BatchedCancel) ([]session.Outcome, error) {
	rows := make([][]storeflow.Judged, len(all))
	var steps []step
	for _, i := range inEndOrder(all) {
		statement, arguments, err := s.cancelStatement(all[i].Judged, all[i].Request)
		if err != nil {
			return nil, err
		}
		steps = append(steps, reading(s, &rows[i], scanJudged, statement, arguments...))
	}
	err := s.write(ctx, fmt.Sprintf("cancel %d sessions in", len(all)), func(ctx context.Context) error {
		return s.together(ctx, steps...)
	})
	if err != nil {
		return nil, err
	}
	outcomes := make([]session.Outcome, len(all))
	for i := range outcomes {
		outcomes[i], _ = rows[i][0].Outcome() // of a locked row it is empty
	}
	return outcomes, nil
}

// inEndOrder returns the places of the cancels by the IDs of their last events, the order in which every batch inserts
// events, so that two cannot deadlock. No row is waited for.
func inEndOrder(all []session.BatchedCancel) []int {
	places := make([]int, len(all))
	for i := range places {
		places[i] = i
	}
	slices.SortStableFunc(places, func(a, b int) int {
		return strings.Compare(storeflow.EndID(all[a].Request), storeflow.EndID(all[b].Request))
	})
	return places
}

const (
	// isToStart is the condition of a partial index. A query must repeat it word for word to use the index.
	isToStart = `start_due IS NOT NULL AND status {=} 'cancelled'`
	// wantStart writes in an UPDATE that a start is wanted, and claimed for $19 microseconds, or that none is.
	wantStart = ` start_key = CASE WHEN $19::bigint {>} 0 THEN ($8::{text}[])[pg_catalog.cardinality($8::{text}[])] END,
		start_tries = CASE WHEN $19::bigint {>} 0 THEN 1 END,
		start_due = CASE WHEN $19::bigint {>} 0 THEN {now} {+} ($19::bigint {*} {microsecond}) END`
)

// setBack is the instant after which a claim or a pause began before the clock was set back. It is no parameter,
// because the server would plan the statement anew at each claim to see how many rows there are.
var setBack = fmt.Sprintf(`({now} {+} interval '%d microseconds')`, session.MaxStartPause.Microseconds())

// claimStart looks for what would be due so late that the clock has been set back only if nothing else is due.
var claimStart = `WITH due AS MATERIALIZED (SELECT run_id FROM (
			SELECT run_id FROM SCHEMA.watchdog_sessions WHERE ` + isToStart + ` AND start_due {<=} {now}
			ORDER BY start_due, run_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) AS s UNION ALL SELECT run_id FROM (
			SELECT run_id FROM SCHEMA.watchdog_sessions WHERE ` + isToStart + ` AND start_due {>} ` + setBack + `
			ORDER BY start_due, run_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED) AS early LIMIT 1),
	claimed AS (UPDATE SCHEMA.watchdog_sessions AS s
		SET start_tries = s.start_tries {+} 1, start_due = {now} {+} ($1::bigint {*} {microsecond})
		WHERE s.run_id {=} ANY (ARRAY(SELECT run_id FROM due)) RETURNING s.*)
	SELECT` + sessionFields + `FROM claimed AS s`

// ClaimStart implements [session.Starts], in one round trip. It waits for no row.
func (s *Store) ClaimStart(ctx context.Context, lasts time.Duration) (session.Session, error) {
	return answer(ctx, s.write, "claim a start in", func(ctx context.Context) (session.Session, error) {
		claim := storeflow.RoundUp(session.StartPause(lasts))
		return s.sessionBy(ctx, " is to be started now", claimStart, claim)
	})
}

// putOffStart leaves no key where no start is to follow. It does not compare start_due with NULL, which would have the
// planner look for the row in the index of that.
const putOffStart = `UPDATE SCHEMA.watchdog_sessions AS s
	SET start_due = CASE WHEN $5::bigint {>=} 0 THEN {now} {+} ($5::bigint {*} {microsecond}) END,
		start_key = CASE WHEN $5::bigint {>=} 0 THEN s.start_key END
	WHERE s.run_id {=} $1 AND s.attempt {=} $2 AND s.start_key {=} $3 AND s.start_tries {=} $4
		AND s.status {=} 'cancelled'`

// PutOffStart implements [session.Starts], in one round trip.
func (s *Store) PutOffStart(ctx context.Context, claimed session.Session, pause time.Duration) (bool, error) {
	doing := "put off the start of session " + claimed.RunID + " in"
	return answer(ctx, s.write, doing, func(ctx context.Context) (bool, error) {
		rows, err := s.exec(ctx, putOffStart,
			claimed.RunID, claimed.Attempt, claimed.Start.Key, claimed.Start.Tries, storeflow.StartPause(pause))
		return rows > 0, lockedError(err)
	})
}
