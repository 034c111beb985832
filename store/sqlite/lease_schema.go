package sqlite

import (
	"fmt"
	"slices"

	"github.com/seed62658d38/watchdog/internal/storeflow"
)

// parts are those of the schema. Programs before oldest_reader have no column for it.
var parts = append(slices.Clone(storeflow.Parts),
	storeflow.Part{Version: 2, Table: "watchdog_sessions", Columns: []string{"created", "silent", "due"}},
	storeflow.Part{Version: 3, Table: "watchdog_leases", Columns: []string{"epoch"}},
	storeflow.Part{Version: 3, Table: "watchdog_schema", Added: []storeflow.AddedColumn{{Name: "oldest_reader", Type: "integer"}}},
)

// addedTypes are the types of the columns that a version adds.
var addedTypes = map[string]string{
	"text": "TEXT", "integer": "INTEGER", "time": "TEXT", "flag": "INTEGER", "JSON": "TEXT", "lease ID": "TEXT",
	"since": "TEXT NOT NULL DEFAULT ''", "count": "INTEGER NOT NULL DEFAULT 0",
}

// leaseTables are the tables of version 3. The epoch of a lease is the time at which its clock was at zero, in
// nanoseconds since 1970; promise, clock and vouched are in nanoseconds, too. Looks is how often the lease was observed:
// each observation is a write.
var leaseTables = []string{
	`watchdog_leases (
		id TEXT NOT NULL PRIMARY KEY,
		host TEXT NOT NULL,
		promise INTEGER NOT NULL,
		beat INTEGER NOT NULL,
		clock INTEGER NOT NULL,
		vouched INTEGER NOT NULL,
		renewed_at TEXT NOT NULL,
		looks INTEGER NOT NULL DEFAULT 0,
		expired TEXT,
		epoch INTEGER GENERATED ALWAYS AS ((` + microseconds("renewed_at") + `) * 1000 - clock) VIRTUAL
	)`,
	`watchdog_outbox (
		id INTEGER PRIMARY KEY AUTOINCREMENT,
		event_id VARCHAR(36) NOT NULL,
		aggregate_type VARCHAR(100) NOT NULL,
		aggregate_id VARCHAR(255) NOT NULL,
		event_type VARCHAR(200) NOT NULL,
		created_at TEXT NOT NULL
	)`,
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
		if err := t.exec(`CREATE TABLE IF NOT EXISTS main.` + table); err != nil {
			return fmt.Errorf("create the tables of leases: %w", err)
		}
	}
	if err := t.addColumns(3); err != nil {
		return err
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

// addColumns adds those columns of a version that are missing.
func (t *transaction) addColumns(version int) error {
	return storeflow.Additions(parts, version, addedTypes, func(table, column, of string) error {
		exist, err := t.columnNames(table)
		if err != nil || slices.Contains(exist, column) {
			return err
		}
		return t.exec(`ALTER TABLE main.` + table + ` ADD COLUMN ` + column + ` ` + of)
	})
}

// triggers are ours, with the versions that make them.
var triggers = map[string]int{"watchdog_leases_named": 3, "watchdog_lease_ends_untold": 6}

// completeVersion returns the version to migrate from: a lower one if the host has dropped tables. It fails if a table of
// such a name is not ours.
func (t *transaction) completeVersion(version int) (int, error) {
	exists, err := t.checkEvents()
	if err != nil {
		return 0, err
	}
	if !exists {
		version = 0
	}
	version, err = storeflow.CompleteVersion(version, parts, t.columnNames, func(table string, lacks []string) error {
		return fmt.Errorf("%w (%s has no column %s)", ErrForeignTable, table, lacks[0])
	})
	if err != nil {
		return 0, err
	}
	exist, err := rowsOf(t, scanText, `SELECT name FROM main.sqlite_master WHERE type = 'trigger'`)
	for name, of := range triggers {
		if !slices.Contains(exist, name) {
			version = min(version, of-1)
		}
	}
	return version, err
}

// columnNames returns the names of a table's columns in lower case, and none if there is no such table.
func (t *transaction) columnNames(table string) ([]string, error) {
	return rowsOf(t, scanText, `SELECT lower(name) FROM pragma_table_xinfo(?1, 'main')`, table)
}
