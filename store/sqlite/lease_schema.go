package sqlite

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// addedColumns are columns of version 3 that tables which programs before made lack.
var addedColumns = []string{"covered", "behind", "oldest_reader"}

// A leaseTable is one that version 3 makes, or gives more columns: a name and a type each.
type leaseTable struct {
	name    string
	columns [][2]string
}

// leaseTables are the tables and columns of version 3. A column may be NULL, so that adding it changes no row, and so
// that versions that do not know it go on writing rows.
//
// The row of a session in a lease has the largest threshold, so that a version that knows nothing of leases never finds
// it stalled; own_threshold is the session's. quiet_since is the activity of a quiet session without a threshold of its
// own. That of one with a threshold is in quiet_due, with the threshold added. Both are NULL for a session that is not
// quiet: signs of life of a busy session change no index.
//
// A session with an allowance has no threshold. Its own_threshold is for versions that know no allowance, and its
// quiet_due has the allowance added. One of an attempt before, of such a version, is not for this one.
//
// A row that left a lease which expired says in expired_lease for which attempt, how often in a row the lease was found
// not renewed, when it was renewed last, in microseconds since 1970, and its ID.
var leaseTables = []leaseTable{
	{"watchdog_sessions", [][2]string{
		{"lease", "TEXT"},
		{"leased", "INTEGER"}, // the attempt that the lease is for, with a minus if that is lost
		{"activity", "INTEGER"},
		{"quiet_since", "INTEGER"},
		{"quiet_due", "INTEGER"},
		{"own_threshold", "INTEGER"},
		{"state", "TEXT"},
		{"claim", "TEXT"},
		{"claimed_until", "TEXT"},
		{"warned_at", "TEXT"},
		{"warned_attempt", "INTEGER"}, // the row when it was warned, as are the next three
		{"warned_lease", "TEXT"},
		{"warned_beat", "INTEGER"},
		{"warned_last_event", "TEXT"},
		{"stop_failed", "INTEGER"},
		{"allowance", "INTEGER"}, // in nanoseconds
		{"allowed", "INTEGER"},   // the attempt that the allowance is for
		{"expired_lease", "TEXT"},
	}},
	{"watchdog_leases", [][2]string{
		{"id", "TEXT NOT NULL PRIMARY KEY"},
		{"host", "TEXT NOT NULL"},
		{"promise", "INTEGER NOT NULL"}, // in nanoseconds, as are clock and vouched
		{"beat", "INTEGER NOT NULL"},
		{"clock", "INTEGER NOT NULL"},
		{"vouched", "INTEGER NOT NULL"},
		{"renewed_at", "TEXT NOT NULL"},
		{"looks", "INTEGER NOT NULL DEFAULT 0"}, // how often it was observed: each observation is a write
		{"expired", "TEXT"},                     // when it was found to have expired
		{"covered", "INTEGER"},                  // as vouched, without the rows of behind
		{"behind", "TEXT"},                      // the rows that cannot be written now, as JSON
		// The time at which the lease's clock was at zero, in nanoseconds since 1970.
		{"epoch", "INTEGER GENERATED ALWAYS AS ((" + microseconds("renewed_at") + ") * 1000 - clock) VIRTUAL"},
	}},
	{"watchdog_outbox", [][2]string{
		{"id", "INTEGER PRIMARY KEY AUTOINCREMENT"},
		{"event_id", "VARCHAR(36) NOT NULL"},
		{"aggregate_type", "VARCHAR(100) NOT NULL"},
		{"aggregate_id", "VARCHAR(255) NOT NULL"},
		{"event_type", "VARCHAR(200) NOT NULL"},
		{"created_at", "TEXT NOT NULL"},
	}},
	{"watchdog_schema", [][2]string{
		{"version", "INTEGER PRIMARY KEY"},
		{"oldest_reader", "INTEGER"}, // the oldest version that can use the schema
	}},
}

// The conditions of the partial indexes. A query must repeat a condition word for word to use its index. An unreadable
// row is never stalled.
const (
	isLeased   = `status = 'active' AND ` + inLease
	isReadable = `created IS NOT NULL AND silent IS NOT NULL AND threshold >= 0`
	isQuiet    = `quiet_since IS NOT NULL AND ` + isLeased + ` AND ` + isReadable
	isQuietDue = `quiet_due IS NOT NULL AND ` + isLeased + ` AND ` + isReadable
	isLive     = `status = 'active'`
	hasParent  = `parent <> ''`
)

var leaseIndexes = []string{
	`watchdog_sessions_lease ON watchdog_sessions (lease, run_id) WHERE ` + isLeased,
	`watchdog_sessions_quiet ON watchdog_sessions (lease, quiet_since, run_id, created) WHERE ` + isQuiet,
	`watchdog_sessions_quiet_due ON watchdog_sessions (lease, quiet_due, run_id, created) WHERE ` + isQuietDue,
	`watchdog_sessions_created ON watchdog_sessions (created, run_id)`,
	`watchdog_sessions_live ON watchdog_sessions (created, run_id) WHERE ` + isLive,
	`watchdog_sessions_parent ON watchdog_sessions (parent, created, run_id) WHERE ` + hasParent,
	`watchdog_sessions_host ON watchdog_sessions (host, created, run_id)`,
}

// refuseDelete has every program fail that deletes a lease which sessions name: nobody would observe the lease any
// more, and if its process is dead the sessions would stay active for ever. SQLite would check a foreign key only for
// programs that ask for it. The store deletes the leases alone that no session names.
const refuseDelete = `
	CREATE TRIGGER IF NOT EXISTS main.watchdog_leases_named BEFORE DELETE ON watchdog_leases
	WHEN EXISTS (SELECT 1 FROM watchdog_sessions WHERE ` + isLeased + ` AND lease = old.id)
	BEGIN
		SELECT RAISE(ABORT, 'active sessions name this lease: a sweeper finds out whether its process is dead');
	END`

// createLeases is version 3, with the indexes of the feed. It adds what is missing.
func createLeases(t *transaction) error {
	if err := createFeedIndexes(t); err != nil {
		return err
	}
	for _, table := range leaseTables {
		if err := t.complete(table); err != nil {
			return fmt.Errorf("create %s: %w", table.name, err)
		}
	}
	for _, index := range leaseIndexes {
		if err := t.exec(`CREATE INDEX IF NOT EXISTS main.` + index); err != nil {
			return fmt.Errorf("index watchdog_sessions: %w", err)
		}
	}
	if err := t.exec(refuseDelete); err != nil {
		return fmt.Errorf("keep the leases that sessions name: %w", err)
	}
	return nil
}

// complete makes a table, or adds the columns that it lacks.
func (t *transaction) complete(table leaseTable) error {
	exist, err := t.columnNames(table.name)
	if err != nil {
		return err
	}
	if len(exist) == 0 {
		return t.exec(`CREATE TABLE main.` + table.name + ` (` + table.definition() + `)`)
	}
	for _, column := range table.columns {
		if slices.Contains(exist, column[0]) {
			continue
		}
		if err := t.exec(`ALTER TABLE main.` + table.name + ` ADD COLUMN ` + column[0] + ` ` + column[1]); err != nil {
			return err
		}
	}
	return nil
}

func (table leaseTable) definition() string {
	var columns []string
	for _, column := range table.columns {
		columns = append(columns, column[0]+" "+column[1])
	}
	return strings.Join(columns, ", ")
}

// lacksLeases reports whether a table, a column or the trigger of version 3 is missing. It fails if a table of such a
// name is not ours.
func (t *transaction) lacksLeases() (lacks bool, err error) {
	for _, table := range leaseTables {
		exist, err := t.columnNames(table.name)
		if err != nil {
			return false, err
		}
		for _, column := range table.columns {
			switch {
			case slices.Contains(exist, column[0]):
			case len(exist) == 0 || table.name == "watchdog_sessions" || slices.Contains(addedColumns, column[0]):
				lacks = true
			default:
				return false, fmt.Errorf("%w (%s has no column %s)", ErrForeignTable, table.name, column[0])
			}
		}
	}
	names, err := t.texts(`SELECT name FROM main.sqlite_master WHERE type = 'trigger' AND name = 'watchdog_leases_named'`)
	return lacks || len(names) == 0, err
}

// columnNames returns the names of a table's columns in lower case, and none if there is no such table.
func (t *transaction) columnNames(table string) ([]string, error) {
	statement, err := t.prepare(`SELECT lower(name) FROM pragma_table_xinfo(?1, 'main')`) //nolint:sqlclosecheck // kept
	if err != nil {
		return nil, err
	}
	return textsOf(statement.QueryContext(context.Background(), table))
}
