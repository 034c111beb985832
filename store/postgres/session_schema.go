package postgres

import "fmt"

// sessionColumns are the columns of a row, in the order in which they are read.
var sessionColumns = []string{
	"run_id", "parent", "status", "created_at", "last_event_at", "threshold", "started_at", "host", "attempt", "resumes", "reason",
	"ended_at", "ended", "readable", "silent", "due",
}

// A threshold is in nanoseconds; 0 is the sweeper's. ended is the transaction in which the row last ended, which orders what is seen by others where times do not.
//
// The generated columns are what is searched for: whether a row can be understood at all, since when its run is silent, and when that is too long for a threshold of its own.
// Another writer of the table need not know of them. The detour over UTC is because only times without a zone can be added up by an expression that PostgreSQL keeps.
//
// Freshening a row writes into an index, so that it is never a HOT update, and room on the page (fillfactor) would not help. What it leaves behind lies where the search
// for stalled sessions begins, so that the table is vacuumed after two rows in a hundred and not after twenty.
//
// Rejected: an index on a time that is rounded, so that most freshening leaves it alone. HOT looks at the columns that changed and not at their values in the index, so that it takes a column of
// its own, and a keeper writes a row once a minute only.
const createSessionTable = `
	CREATE TABLE IF NOT EXISTS SCHEMA.watchdog_sessions (
		run_id varchar(255) COLLATE "C" PRIMARY KEY,
		parent varchar(255) NOT NULL DEFAULT '',
		status varchar(20) NOT NULL,
		created_at timestamptz NOT NULL,
		last_event_at timestamptz,
		threshold bigint NOT NULL DEFAULT 0,
		started_at timestamptz NOT NULL,
		host text NOT NULL DEFAULT '',
		attempt bigint NOT NULL,
		resumes bigint NOT NULL DEFAULT 0,
		reason text NOT NULL DEFAULT '',
		ended_at timestamptz,
		ended xid8,
		readable boolean GENERATED ALWAYS AS (status IN ('active', 'cancelled', 'interrupted', 'finished')
			AND threshold >= 0 AND attempt >= 0 AND resumes >= 0 AND ` + readableTimes + `) STORED,
		silent timestamptz GENERATED ALWAYS AS (coalesce(last_event_at, created_at)) STORED,
		due timestamptz GENERATED ALWAYS AS ((
			coalesce(last_event_at, created_at) AT TIME ZONE 'UTC' + (threshold / 1000) * interval '1 microsecond') AT TIME ZONE 'UTC') STORED
	) WITH (autovacuum_vacuum_scale_factor = 0.02)`

const readableTimes = `
			created_at BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59.999999+00'
			AND coalesce(last_event_at, created_at) BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59.999999+00'
			AND started_at BETWEEN '0001-01-01 00:00:00+00' AND '9999-12-31 23:59:59.999999+00'`

// The conditions of the partial indexes; a query that has one of them word for word can use its index.
const (
	hasDefaultThreshold = `status = 'active' AND readable AND threshold = 0`
	hasOwnThreshold     = `status = 'active' AND readable AND threshold > 0`
	isUnreadable        = `status = 'active' AND NOT readable`
	hasEnded            = `ended IS NOT NULL`
)

// createSessions is version 2.
func createSessions(t *transaction) error {
	for _, statement := range []string{
		createSessionTable,
		`CREATE INDEX IF NOT EXISTS watchdog_sessions_silent ON SCHEMA.watchdog_sessions (silent, run_id) WHERE ` + hasDefaultThreshold,
		`CREATE INDEX IF NOT EXISTS watchdog_sessions_due ON SCHEMA.watchdog_sessions (due, run_id) WHERE ` + hasOwnThreshold,
		`CREATE INDEX IF NOT EXISTS watchdog_sessions_unreadable ON SCHEMA.watchdog_sessions (run_id) WHERE ` + isUnreadable,
		`CREATE INDEX IF NOT EXISTS watchdog_sessions_ended ON SCHEMA.watchdog_sessions (ended) WHERE ` + hasEnded,
	} {
		if err := t.exec(statement); err != nil {
			return fmt.Errorf("create watchdog_sessions: %w", err)
		}
	}
	return nil
}
