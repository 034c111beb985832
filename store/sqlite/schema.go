package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/internal/storerows"
)

// A migration takes the schema from one version to the next, in one transaction. The first also takes over an existing
// events table. Each must allow being run again, because a table that the host has dropped is created again.
var migrations = []func(*transaction) error{
	createEvents, createSessions, createLeases, createSpend, createDelivery, createLeaseEnds,
}

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
	if err := storerows.CheckVersion(version, oldest, len(migrations)); err != nil {
		return false, err
	}
	if version, err = t.completeVersion(version); err != nil {
		return false, err
	}
	if version >= len(migrations) {
		return true, t.checkWritable()
	}
	if err := migrations[version](t); err != nil {
		return false, err
	}
	if err := t.storeVersion(version + 1); err != nil {
		return false, err
	}
	return false, t.commit()
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
		oldestReader, len(migrations))
}

// checkWritable finds a read-only database when the store is opened, not when its first event is lost. The statement
// changes no row, but SQLite needs the right to write.
func (t *transaction) checkWritable() error {
	return t.exec(`UPDATE main.watchdog_schema SET version = version WHERE version < 0`)
}

// createEvents is version 1.
func createEvents(t *transaction) error {
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
