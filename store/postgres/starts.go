package postgres

import (
	"context"
	"time"

	"github.com/seed62658d38/watchdog/internal/storeflow"
	"github.com/seed62658d38/watchdog/internal/storerows"
	"github.com/seed62658d38/watchdog/session"
)

const (
	// isToStart is the condition of a partial index. A query must repeat it word for word to use the index.
	isToStart = `start_due IS NOT NULL AND status {=} 'cancelled' AND start_attempt {=} attempt`

	// startFields are the columns of a start that is wanted of a session s.
	startFields = ` CASE WHEN ` + hasStart + ` THEN s.start_key END, CASE WHEN ` + hasStart + ` THEN s.start_tries END,
	CASE WHEN ` + hasStart + ` THEN {send}(s.start_due) END`
	hasStart = `s.status {=} 'cancelled' AND s.start_attempt {=} s.attempt AND s.start_due IS NOT NULL`

	// wantStart writes in an UPDATE that a start is wanted, and claimed for so many microseconds, $19, or that none is.
	// The IDs of the events are $8.
	wantStart = ` start_key = CASE WHEN $19::bigint {>} 0 THEN ($8::{text}[])[pg_catalog.cardinality($8::{text}[])] END,
		start_attempt = CASE WHEN $19::bigint {>} 0 THEN s.attempt END, start_tries = CASE WHEN $19::bigint {>} 0 THEN 1 END,
		start_due = CASE WHEN $19::bigint {>} 0 THEN {now} {+} ($19::bigint {*} {microsecond}) END`
)

// claimStart looks for what would be due so late that the clock has been set back only if nothing else is due.
var claimStart = `WITH due AS MATERIALIZED (
		SELECT run_id FROM (
			SELECT run_id FROM SCHEMA.watchdog_sessions WHERE ` + isToStart + ` AND start_due {<=} {now}
			ORDER BY start_due, run_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
		) AS s UNION ALL SELECT run_id FROM (
			SELECT run_id FROM SCHEMA.watchdog_sessions WHERE ` + isToStart + ` AND start_due {>} ` + setBack + `
			ORDER BY start_due, run_id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
		) AS early LIMIT 1
	), claimed AS (
		UPDATE SCHEMA.watchdog_sessions AS s
		SET start_tries = s.start_tries {+} 1, start_due = {now} {+} ($1::bigint {*} {microsecond})
		WHERE s.run_id {=} ANY (ARRAY(SELECT run_id FROM due)) RETURNING s.*)
	SELECT` + sessionFields + `FROM claimed AS s`

// ClaimStart implements [session.Starts], in one round trip. It waits for no row.
func (s *Store) ClaimStart(ctx context.Context, lasts time.Duration) (session.Session, error) {
	return answer(ctx, s.write, "claim a start in", func(ctx context.Context) (session.Session, error) {
		claim := storerows.RoundUp(storerows.StartPause(lasts))
		return s.sessionBy(ctx, " is to be started now", claimStart, claim)
	})
}

const putOffStart = `UPDATE SCHEMA.watchdog_sessions AS s
	SET start_due = CASE WHEN $5::bigint {>=} 0 THEN {now} {+} ($5::bigint {*} {microsecond}) END
	WHERE s.run_id {=} $1 AND s.attempt {=} $2 AND s.start_key {=} $3 AND s.start_tries {=} $4 AND ` + hasStart

// PutOffStart implements [session.Starts], in one round trip.
func (s *Store) PutOffStart(ctx context.Context, claimed session.Session, pause time.Duration) (bool, error) {
	doing := "put off the start of session " + claimed.RunID + " in"
	return answer(ctx, s.write, doing, func(ctx context.Context) (bool, error) {
		rows, err := s.exec(ctx, putOffStart,
			claimed.RunID, claimed.Attempt, claimed.Start.Key, claimed.Start.Tries, storeflow.StartPause(pause))
		return rows > 0, lockedError(err)
	})
}
