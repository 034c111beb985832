package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/internal/storeflow"
)

// schema is what each version makes. It must allow being made again, because a table that the host has dropped is
// created again. The epoch of a lease is the time at which its clock was at zero, in nanoseconds since 1970.
var schema = storeflow.Schema{
	Newest: 7,
	Parts: append(slices.Clone(storeflow.Parts),
		storeflow.Part{Version: 2, Table: "watchdog_sessions", Columns: numberedTimes},
		storeflow.Part{Version: 3, Table: "watchdog_leases", Columns: []storeflow.Column{
			{Name: "epoch", Is: "INTEGER GENERATED ALWAYS AS ((" + microseconds("renewed_at") + ") * 1000 - clock) VIRTUAL"},
		}},
		storeflow.Part{Version: 3, Table: "watchdog_outbox", Columns: []storeflow.Column{
			{Name: "id", Is: "INTEGER PRIMARY KEY AUTOINCREMENT"},
			{Name: "event_id", Is: "VARCHAR(36) NOT NULL"},
			{Name: "aggregate_type", Is: "VARCHAR(100) NOT NULL"},
			{Name: "aggregate_id", Is: "VARCHAR(255) NOT NULL"},
			{Name: "event_type", Is: "VARCHAR(200) NOT NULL"},
			{Name: "created_at", Is: "TEXT NOT NULL"},
		}},
		// The oldest version that can use the schema.
		storeflow.Part{Version: 3, Table: "watchdog_schema", Added: []storeflow.Column{
			{Name: "oldest_reader", Is: "INTEGER"},
		}},
	),
	Prefix: "main.",
	Types: strings.NewReplacer("{bytes}", "", "{text}", "TEXT", "{integer}", "INTEGER", "{time}", "TEXT",
		"{flag}", "INTEGER", "{JSON}", "TEXT", "{lease}", "TEXT", "{cascade}", "", "{before}", "''",
		"{payload}", "JSON", "{due}", "INTEGER"),
	Options: map[string]string{
		"watchdog_sessions": " WITHOUT ROWID", "watchdog_spend": " WITHOUT ROWID", "watchdog_slices": " WITHOUT ROWID",
		"watchdog_lease_ends": " WITHOUT ROWID",
	},
	// Who deletes a window of watchdog_spend finds its slices by their index.
	Indexes: map[int][]string{
		2: sessionIndexes,
		3: slices.Concat(feedIndexes, leaseIndexes, []string{refuseDelete}),
		4: {`CREATE INDEX IF NOT EXISTS main.watchdog_slices_window ON watchdog_slices (scope, window_name)`},
		5: outboxIndexes,
		6: {dropLeaseEnds},
		7: {`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_start
			ON watchdog_sessions (start_due, run_id) WHERE ` + isToStart},
	},
	EventIndex: func(name, columns string) string {
		return `CREATE INDEX IF NOT EXISTS main.` + name + ` ON events (` + columns + `)`
	},
}

// triggers are ours, with the versions that make them.
var triggers = map[string]int{"watchdog_leases_named": 3, "watchdog_lease_ends_untold": 6}

// oldestReader is the oldest version that can use a database of the newest one.
const oldestReader = 3

// migrate brings the schema to the newest version. Several processes may migrate at once: each step reads and writes
// under the write lock. migrate writes nothing to a database that cannot be used.
func (s *Store) migrate(ctx context.Context) error {
	for {
		t, err := s.begin(ctx, nil)
		if err != nil {
			return err
		}
		current, err := t.migrateOnce()
		t.end()
		if err != nil || current {
			return err
		}
	}
}

// migrateOnce runs and commits the next migration. It returns true if the schema is current.
func (t *transaction) migrateOnce() (current bool, err error) {
	version, err := schema.Version(t.database())
	if err != nil {
		return false, err
	}
	if version, err = t.completeVersion(version); err != nil {
		return false, err
	}
	if version >= schema.Newest {
		return true, t.checkWritable()
	}
	if err := schema.Make(version+1, t.database()); err != nil {
		return false, err
	}
	if err := t.storeVersion(version + 1); err != nil {
		return false, err
	}
	return false, t.commit()
}

// database is what the schema needs of the transaction.
func (t *transaction) database() storeflow.Database {
	return storeflow.Database{
		Exec: t.exec, Values: t.values, Names: t.columnNames, Add: t.addColumn, Events: t.describeEvents,
		Indexes: t.indexes, Foreign: ErrForeignTable,
		Lacking: func(columns []string) string { return "has no column " + columns[0] },
	}
}

func (t *transaction) addColumn(table, column, is string) error {
	exist, err := t.columnNames(table)
	if err != nil || slices.Contains(exist, column) {
		return err
	}
	return t.exec(`ALTER TABLE main.` + table + ` ADD COLUMN ` + column + ` ` + is)
}

// completeVersion returns the version to migrate from: a lower one if the host has dropped tables or triggers.
func (t *transaction) completeVersion(version int) (int, error) {
	version, err := schema.Complete(version, t.database())
	if err != nil {
		return 0, err
	}
	exist, err := rowsOf(t, scanOne[string], `SELECT name FROM main.sqlite_master WHERE type = 'trigger'`)
	for name, of := range triggers {
		if !slices.Contains(exist, name) {
			version = min(version, of-1)
		}
	}
	return version, err
}

func (t *transaction) storeVersion(version int) error {
	err := errors.Join(
		t.exec(`CREATE TABLE IF NOT EXISTS main.watchdog_schema (version INTEGER PRIMARY KEY)`),
		t.exec(`INSERT OR IGNORE INTO main.watchdog_schema (version) VALUES (?)`, version),
	)
	if err != nil || version < oldestReader { // those before have no column for it
		return err
	}
	return t.exec(`UPDATE main.watchdog_schema SET oldest_reader = ?1 WHERE version BETWEEN ?1 AND ?2`,
		oldestReader, schema.Newest)
}

// checkWritable finds a read-only database when the store is opened, not when its first event is lost. The statement
// changes no row, but SQLite needs the right to write.
func (t *transaction) checkWritable() error {
	return t.exec(`UPDATE main.watchdog_schema SET version = version WHERE version < 0`)
}

// useWAL allows reads while a transaction is being written. It runs after the migration, because it writes to the file.
// SQLite never waits for this pragma, whatever the busy timeout, and another process may be setting it as well.
func (s *Store) useWAL(ctx context.Context) error {
	var mode string
	err := s.retryWhileLocked(ctx, func() error {
		return s.db.QueryRowContext(ctx, "PRAGMA main.journal_mode = WAL").Scan(&mode)
	})
	if err == nil && !strings.EqualFold(mode, "wal") {
		err = fmt.Errorf("the file system does not allow WAL mode (journal mode stays %s): "+
			"use a local disk, or open the database with sql.Open and pass it to New", mode)
	}
	return err
}

// findFile looks up the file of a host's database. It returns its path, empty for a database in memory.
func (s *Store) findFile(ctx context.Context) (path string, err error) {
	err = s.retryWhileLocked(ctx, func() error {
		return s.db.QueryRowContext(ctx, `
			SELECT coalesce(file, '') FROM pragma_database_list WHERE name = 'main'`).Scan(&path)
	})
	if err != nil || path == "" {
		return "", err
	}
	s.file = path
	return path, nil
}

// The generated columns of watchdog_sessions are times as numbers, in microseconds since 1970, so that the sum of a
// time and a threshold can be indexed. They are NULL for a text that is not a timestamp of ours. Such rows have an
// index of their own, because no comparison would find them.
//
// Rejected: text in the indexes. It needs no conversion, but a session with a threshold of its own must be found by the
// time when it exceeds the threshold, and SQLite adds texts only to the millisecond. Rejected as well: ordinary columns
// that every write sets, because other writers of the table do not know them. The indexes contain created, because
// reading it from there costs a third less than computing it for each row found.
var numberedTimes = []storeflow.Column{
	{Name: "ended", Is: "INTEGER"},
	{Name: "created", Is: "INTEGER GENERATED ALWAYS AS (" + microseconds("created_at") + ") VIRTUAL"},
	{
		Name: "silent",
		Is:   "INTEGER GENERATED ALWAYS AS (" + microseconds("coalesce(last_event_at, created_at)") + ") VIRTUAL",
	},
	{Name: "due", Is: "INTEGER GENERATED ALWAYS AS (silent + threshold / 1000) VIRTUAL"},
}

// The conditions of the partial indexes. A query must repeat a condition word for word to use its index.
const (
	hasDefaultThreshold = `status = 'active' AND threshold = 0`
	hasOwnThreshold     = `status = 'active' AND threshold > 0`
	isUnreadable        = `status = 'active' AND (created IS NULL OR silent IS NULL OR threshold < 0)`
	hasEnded            = `ended IS NOT NULL`
)

var sessionIndexes = []string{
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_silent
		ON watchdog_sessions (silent, run_id, created) WHERE ` + hasDefaultThreshold,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_due
		ON watchdog_sessions (due, run_id, created) WHERE ` + hasOwnThreshold,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_unreadable ON watchdog_sessions (run_id) WHERE ` + isUnreadable,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_ended ON watchdog_sessions (ended) WHERE ` + hasEnded,
}

// microseconds is the SQL that converts a timestamp of ours to a number. SQLite reads February 31st as a day in
// March, so the expression compares with the text that SQLite makes of the time.
func microseconds(text string) string {
	return strings.NewReplacer("TEXT", text, "FORM", timeForm).Replace(`CASE
			WHEN TEXT NOT GLOB 'FORM' THEN NULL
			WHEN strftime('%Y-%m-%d %H:%M:%S', substr(TEXT, 1, 19)) = substr(TEXT, 1, 19)
			THEN CAST(strftime('%s', substr(TEXT, 1, 19)) AS INTEGER) * 1000000 + CAST(substr(TEXT, 21) AS INTEGER) END`)
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
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_lease ON watchdog_sessions (lease, run_id) WHERE ` + isLeased,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_quiet
		ON watchdog_sessions (lease, quiet_since, run_id, created) WHERE ` + isQuiet,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_quiet_due
		ON watchdog_sessions (lease, quiet_due, run_id, created) WHERE ` + isQuietDue,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_created ON watchdog_sessions (created, run_id)`,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_live ON watchdog_sessions (created, run_id) WHERE ` + isLive,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_parent
		ON watchdog_sessions (parent, created, run_id) WHERE ` + hasParent,
	`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_host ON watchdog_sessions (host, created, run_id)`,
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
