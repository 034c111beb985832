package postgres

import "fmt"

// The threshold is in nanoseconds, and 0 means the sweeper's. The column ended is the transaction in which the row
// last ended: transactions have the order in which others see them, and times do not. Keepers of versions before 6 ask
// by it what ended, and it and its index are kept for them alone.
//
// The queries use generated columns, which other writers of the table need not know: whether the row is readable,
// since when its run is silent, and when it exceeds a threshold of its own. The expression for due converts to UTC
// and back, because PostgreSQL generates a column only from an immutable sum, and only the sum of a time without a
// zone is one.
//
// What is written often is in no index: see [storeflow.Parts]. The dead rows of the others lie where the search for stalled
// sessions begins, so the table is vacuumed when two rows in a hundred are dead and not twenty.
const createSessionTable = `
	CREATE TABLE IF NOT EXISTS SCHEMA.watchdog_sessions (
		run_id varchar(255) COLLATE pg_catalog."C" PRIMARY KEY,
		parent varchar(255) NOT NULL DEFAULT '',
		status varchar(20) NOT NULL,
		created_at pg_catalog.timestamptz NOT NULL,
		last_event_at pg_catalog.timestamptz,
		threshold bigint NOT NULL DEFAULT 0,
		started_at pg_catalog.timestamptz NOT NULL,
		host pg_catalog.text NOT NULL DEFAULT '',
		attempt bigint NOT NULL,
		resumes bigint NOT NULL DEFAULT 0,
		reason pg_catalog.text NOT NULL DEFAULT '',
		ended_at pg_catalog.timestamptz,
		ended pg_catalog.xid8,
		readable boolean GENERATED ALWAYS AS (status {=} ANY ('{active,cancelled,interrupted,finished}')
			AND threshold {>=} 0 AND attempt {>=} 0 AND resumes {>=} 0 AND ` + readableTimes + `) STORED,
		silent pg_catalog.timestamptz GENERATED ALWAYS AS (coalesce(last_event_at, created_at)) STORED,
		due pg_catalog.timestamptz GENERATED ALWAYS AS ((
			(coalesce(last_event_at, created_at) AT TIME ZONE 'UTC')
			{+} ((threshold {/} 1000) {*} interval '1 microsecond')) AT TIME ZONE 'UTC') STORED
	) WITH (autovacuum_vacuum_scale_factor = 0.02)`

const readableTimes = `
			created_at {>=} '0001-01-01 00:00:00+00' AND created_at {<=} '9999-12-31 23:59:59.999999+00'
			AND coalesce(last_event_at, created_at) {>=} '0001-01-01 00:00:00+00'
			AND coalesce(last_event_at, created_at) {<=} '9999-12-31 23:59:59.999999+00'
			AND started_at {>=} '0001-01-01 00:00:00+00' AND started_at {<=} '9999-12-31 23:59:59.999999+00'`

// The conditions of the partial indexes. A query must repeat a condition word for word to use its index.
const (
	hasDefaultThreshold = `status {=} 'active' AND readable AND threshold {=} 0`
	hasOwnThreshold     = `status {=} 'active' AND readable AND threshold {>} 0`
	isUnreadable        = `status {=} 'active' AND NOT readable`
	hasEnded            = `ended IS NOT NULL`
)

// createSessions is version 2.
func createSessions(t *transaction) error {
	for _, statement := range []string{
		createSessionTable,
		`CREATE INDEX IF NOT EXISTS watchdog_sessions_silent
			ON SCHEMA.watchdog_sessions (silent, run_id) WHERE ` + hasDefaultThreshold,
		`CREATE INDEX IF NOT EXISTS watchdog_sessions_due
			ON SCHEMA.watchdog_sessions (due, run_id) WHERE ` + hasOwnThreshold,
		`CREATE INDEX IF NOT EXISTS watchdog_sessions_unreadable
			ON SCHEMA.watchdog_sessions (run_id) WHERE ` + isUnreadable,
		`CREATE INDEX IF NOT EXISTS watchdog_sessions_ended
			ON SCHEMA.watchdog_sessions (ended) WHERE ` + hasEnded,
	} {
		if err := t.exec(statement); err != nil {
			return fmt.Errorf("create watchdog_sessions: %w", err)
		}
	}
	return nil
}
