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
	exist, err := rowsOf(t, scanText, `SELECT name FROM main.sqlite_master WHERE type = 'trigger'`)
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
