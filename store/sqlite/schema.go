package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/internal/storeflow"
	"github.com/seed62658d38/watchdog/internal/storerows"
)

// newest is the version of the schema that this package makes. Each version must allow being made again, because a table
// that the host has dropped is created again.
const newest = 7

// schema is what the versions from 2 on make. The epoch of a lease is the time at which its clock was at zero, in
// nanoseconds since 1970.
var schema = storeflow.Schema{
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
		"{flag}", "INTEGER", "{JSON}", "TEXT", "{lease}", "TEXT", "{cascade}", "", "{before}", "''", "{due}", "INTEGER"),
	Options: map[string]string{
		"watchdog_sessions": " WITHOUT ROWID", "watchdog_spend": " WITHOUT ROWID", "watchdog_slices": " WITHOUT ROWID",
		"watchdog_lease_ends": " WITHOUT ROWID",
	},
}

// The indexes and triggers of each version. Who deletes a window of watchdog_spend finds its slices by their index.
var (
	schemaIndexes = map[int][]string{
		2: sessionIndexes,
		3: slices.Concat(feedIndexes, leaseIndexes, []string{refuseDelete}),
		4: {`CREATE INDEX IF NOT EXISTS main.watchdog_slices_window ON watchdog_slices (scope, window_name)`},
		5: outboxIndexes,
		6: {dropLeaseEnds},
		7: {`CREATE INDEX IF NOT EXISTS main.watchdog_sessions_start
			ON watchdog_sessions (start_due, run_id) WHERE ` + isToStart},
	}
	triggers = map[string]int{"watchdog_leases_named": 3, "watchdog_lease_ends_untold": 6}
)

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
	version, oldest, err := t.schemaVersion()
	if err != nil {
		return false, err
	}
	if err := storerows.CheckVersion(version, oldest, newest); err != nil {
		return false, err
	}
	if version, err = t.completeVersion(version); err != nil {
		return false, err
	}
	if version >= newest {
		return true, t.checkWritable()
	}
	if err := t.makeVersion(version + 1); err != nil {
		return false, err
	}
	if err := t.storeVersion(version + 1); err != nil {
		return false, err
	}
	return false, t.commit()
}

// makeVersion makes what a version has. Of a table that is there it adds what is missing.
func (t *transaction) makeVersion(version int) error {
	if version == 1 {
		return t.createEvents()
	}
	exec := func(statement string) error { return t.exec(statement) }
	err := schema.Make(version, exec, func(table, column, is string) error {
		exist, err := t.columnNames(strings.TrimPrefix(table, schema.Prefix))
		if err != nil || slices.Contains(exist, column) {
			return err
		}
		return t.exec(`ALTER TABLE ` + table + ` ADD COLUMN ` + column + ` ` + is)
	})
	if err != nil {
		return err
	}
	for _, statement := range schemaIndexes[version] {
		if err := t.exec(statement); err != nil {
			return fmt.Errorf("make the indexes of version %d: %w", version, err)
		}
	}
	return nil
}

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
	version, err = schema.Complete(version, t.columnNames, func(table string, lacks []string) error {
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

// schemaVersion returns the version of the schema and the oldest one that can use it; 0 if there is none of ours, or if
// that is not known.
func (t *transaction) schemaVersion() (version, oldest int, err error) {
	names, err := t.columnNames("watchdog_schema")
	if err != nil || len(names) == 0 {
		return 0, 0, err
	}
	if err := t.values(`SELECT coalesce(max(version), 0) FROM main.watchdog_schema`, nil, &version); err != nil {
		return 0, 0, err
	}
	if slices.Contains(names, "oldest_reader") {
		err = t.values(`SELECT coalesce((
			SELECT oldest_reader FROM main.watchdog_schema ORDER BY version DESC LIMIT 1), 0)`, nil, &oldest)
	}
	return version, oldest, err
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
		oldestReader, newest)
}

// checkWritable finds a read-only database when the store is opened, not when its first event is lost. The statement
// changes no row, but SQLite needs the right to write.
func (t *transaction) checkWritable() error {
	return t.exec(`UPDATE main.watchdog_schema SET version = version WHERE version < 0`)
}

// createEvents is version 1. It also takes over an existing events table.
func (t *transaction) createEvents() error {
	if err := t.exec(`
		CREATE TABLE IF NOT EXISTS main.events (
			id VARCHAR(36) NOT NULL PRIMARY KEY,
			aggregate_type VARCHAR(100) NOT NULL,
			aggregate_id VARCHAR(255) NOT NULL,
			event_type VARCHAR(200) NOT NULL,
			payload JSON NOT NULL,
			timestamp TEXT NOT NULL,
			consensus_id VARCHAR(36)
		)`); err != nil {
		return err
	}
	existing, err := t.indexes()
	if err != nil {
		return err
	}
	for _, index := range storerows.MissingIndexes(existing) {
		columns := strings.Join(index.Columns, ", ")
		if err := t.exec(`CREATE INDEX IF NOT EXISTS main.` + index.Name + ` ON events (` + columns + `)`); err != nil {
			return err
		}
	}
	return nil
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
