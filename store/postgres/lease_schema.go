package postgres

import "fmt"

// createLeaseTable makes the leases of keepers. Clock, vouched and promise are in nanoseconds, the first two by the
// clock of the lease's process. Each look at a lease counts looks up, which is how an observer knows that the database
// takes writes. A renewal and a look change no column of an index, and the free space on the page takes their new rows.
const createLeaseTable = `
	CREATE TABLE IF NOT EXISTS SCHEMA.watchdog_leases (
		id varchar(255) COLLATE pg_catalog."C" PRIMARY KEY,
		host pg_catalog.text NOT NULL DEFAULT '',
		promise bigint NOT NULL,
		beat bigint NOT NULL,
		clock bigint NOT NULL,
		vouched bigint NOT NULL,
		renewed_at pg_catalog.timestamptz NOT NULL,
		looks bigint NOT NULL DEFAULT 0,
		expired pg_catalog.timestamptz
	) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02)`

// addedLeaseColumns are the columns of watchdog_leases that programs before neither know nor change. Covered is as
// vouched, without the rows that cannot be written now; behind names these.
var addedLeaseColumns = [][2]string{{"covered", "bigint"}, {"behind", "pg_catalog.json"}}

var leaseTableColumns = []string{
	"id", "host", "promise", "beat", "clock", "vouched", "renewed_at", "looks", "expired",
}

// leaseColumns are the columns of watchdog_sessions that programs before leases neither know nor change. A row is in a
// lease only if leased is its attempt: such a program that attaches counts the attempt up, and so takes the row out of
// the lease. While a row is in a lease, its column threshold is [watchdog.NoLimit], so that the sweepers of such
// programs never find it, and own_threshold is its threshold.
//
// Activity is in nanoseconds of the lease's clock, NULL for a run that has not signalled. It is in no index, so that
// writing it is a HOT update. A row that is quiet has one of two columns: quiet_since, its activity, if it has no
// threshold of its own, or else quiet_due, its activity and its threshold. Both are rounded up to microseconds, so that
// the index has the order of the pages of stalled sessions.
//
// A row with an allowance has no threshold. Its own_threshold is for programs that know no allowance, and its quiet_due
// has the allowance added. An allowance that allowed says is of an earlier attempt, which such a program followed, is
// void.
//
// A row that left a lease which expired says in expired_lease for which attempt, how often in a row the lease was found
// not renewed, when it was renewed last, in microseconds since 1970, and its ID.
//
// The columns of a warning beside its time are what the session was like when it was warned, or its agents were
// stopped: after a sign of life warned_at and, of an active session, stop_failed are void.
var leaseColumns = [][2]string{
	{"lease", `varchar(255) COLLATE pg_catalog."C" REFERENCES SCHEMA.watchdog_leases (id)`},
	{"leased", "bigint"},
	{"own_threshold", "bigint"},
	{"activity", "bigint"},
	{"quiet_since", "bigint"},
	{"quiet_due", "bigint"},
	{"state", "pg_catalog.json"},
	{"claim", "pg_catalog.text"},
	{"claimed_until", "pg_catalog.timestamptz"},
	{"warned_at", "pg_catalog.timestamptz"},
	{"warned_attempt", "bigint"},
	{"warned_lease", "pg_catalog.text"},
	{"warned_beat", "bigint"}, // the activity
	{"warned_last_event", "pg_catalog.timestamptz"},
	{"stop_failed", "boolean"},
	{"allowance", "bigint"},
	{"allowed", "bigint"}, // the attempt that the allowance is for
	{"expired_lease", "pg_catalog.text"},
}

// The indexes of leased rows, and those of lists. The first also finds the rows that still name a lease when it is
// deleted.
var leaseIndexes = [][2]string{
	{"lease", "(lease, run_id) WHERE lease IS NOT NULL"},
	{"quiet_since", "(lease, quiet_since, run_id) WHERE quiet_since IS NOT NULL"},
	{"quiet_due", "(lease, quiet_due, run_id) WHERE quiet_due IS NOT NULL"},
	{"created", "(created_at DESC, run_id DESC)"},
	{"live", "(created_at DESC, run_id DESC) WHERE status {=} 'active'"},
	{"parent", "(parent, created_at DESC, run_id DESC) WHERE parent {<>} ''"},
	{"host", "(host, created_at DESC, run_id DESC)"},
}

// createLeases is a part of version 3. Adding a column that may be NULL takes a moment, however many rows there are, if
// no transaction uses the table: migrate fails, and does not wait with everybody behind it, if one does for long.
func createLeases(t *transaction) error {
	statements := []string{limitLocks, createLeaseTable, createOutbox}
	for _, column := range leaseColumns {
		statements = append(statements,
			"ALTER TABLE SCHEMA.watchdog_sessions ADD COLUMN IF NOT EXISTS "+column[0]+" "+column[1])
	}
	for _, column := range addedLeaseColumns {
		statements = append(statements,
			"ALTER TABLE SCHEMA.watchdog_leases ADD COLUMN IF NOT EXISTS "+column[0]+" "+column[1])
	}
	for _, index := range leaseIndexes {
		statements = append(statements,
			"CREATE INDEX IF NOT EXISTS watchdog_sessions_"+index[0]+" ON SCHEMA.watchdog_sessions "+index[1])
	}
	statements = append(statements, "ALTER TABLE SCHEMA.watchdog_sessions SET (fillfactor = 70)")
	for _, statement := range statements {
		if err := t.exec(statement); err != nil {
			return fmt.Errorf("create watchdog_leases: %w", err)
		}
	}
	return nil
}
