package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// ErrNewerSchema is returned by [Open] and [New] for a database that a newer version of this package has migrated.
var ErrNewerSchema = errors.New(
	"the database was written by a newer version of this program, and this one does not know its schema: use the newer one")

// A migration takes the schema from one version to the next, in one transaction. The first also takes over a table that
// is there already, and every one must bear being run where its work is done, because a table that
// the host has dropped is made again.
var migrations = []func(*transaction) error{createEvents, createSessions}

// migrate brings the schema to the newest version. Several processes may do this at once: each step looks and writes
// under the write lock. A database that cannot be used is found out before anything is written to it.
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

// migrateOnce takes one step and commits it, or says that there is none to take.
func (t *transaction) migrateOnce() (current bool, err error) {
	version, err := t.schemaVersion()
	if err != nil {
		return false, err
	}
	if version > len(migrations) {
		return false, fmt.Errorf("%w (its version is %d, the newest known here %d)", ErrNewerSchema, version, len(migrations))
	}
	if version, err = t.usableVersion(version); err != nil {
		return false, err
	}
	if version == len(migrations) {
		return true, t.checkWritable()
	}
	if err := migrations[version](t); err != nil {
		return false, err
	}
	if err := t.keepVersion(version + 1); err != nil {
		return false, err
	}
	return false, t.commit()
}

// usableVersion is what is left of a version whose tables the host may have dropped. Tables of those names that are not ours are an error.
func (t *transaction) usableVersion(version int) (int, error) {
	events, err := t.checkTable()
	if err != nil {
		return 0, err
	}
	sessions, err := t.checkSessionTable()
	if err != nil {
		return 0, err
	}
	switch {
	case !events:
		return 0, nil
	case !sessions:
		return min(version, 1), nil
	default:
		return version, nil
	}
}

// schemaVersion returns 0 for a database that has no schema of ours.
func (t *transaction) schemaVersion() (version int, err error) {
	var tables int
	err = t.queryValue(&tables, `SELECT count(*) FROM main.sqlite_master WHERE type = 'table' AND name = 'watchdog_schema'`)
	if err != nil || tables == 0 {
		return 0, err
	}
	err = t.queryValue(&version, `SELECT coalesce(max(version), 0) FROM main.watchdog_schema`)
	return version, err
}

func (t *transaction) keepVersion(version int) error {
	return errors.Join(
		t.exec(`CREATE TABLE IF NOT EXISTS main.watchdog_schema (version INTEGER PRIMARY KEY)`),
		t.exec(`INSERT OR IGNORE INTO main.watchdog_schema (version) VALUES (?)`, version),
	)
}

// checkWritable tells when a store is opened, and not when its first event is lost, that the database is read-only. It
// changes no row, but SQLite has to be ready to.
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
	return errors.Join(
		t.createIndex("watchdog_events_aggregate", "aggregate_type", "aggregate_id", "timestamp"),
		t.createIndex("watchdog_events_type", "event_type"),
	)
}

// createIndex makes an index unless the table has one that begins with the same columns.
func (t *transaction) createIndex(name string, columns ...string) error {
	indexes, err := t.indexes()
	if err != nil {
		return err
	}
	for _, index := range indexes {
		if index.leads(columns) {
			return nil
		}
	}
	return t.exec(`CREATE INDEX IF NOT EXISTS main.` + name + ` ON events (` + strings.Join(columns, ", ") + `)`)
}

// useWAL lets readers and the writer work side by side. It comes after the schema, because it writes to the file. SQLite
// does not wait here even if it was told to, and another process may be doing the same.
func (s *Store) useWAL(ctx context.Context) error {
	var mode string
	err := s.patiently(ctx, func() error {
		return s.db.QueryRowContext(ctx, "PRAGMA main.journal_mode = WAL").Scan(&mode)
	})
	if err == nil && !strings.EqualFold(mode, "wal") {
		err = fmt.Errorf("the file system does not allow WAL mode (journal mode stays %s): "+
			"use a local disk, or open the database with sql.Open and pass it to New", mode)
	}
	return err
}

// learnFile finds out what a host's database is called, for errors.
func (s *Store) learnFile(ctx context.Context) error {
	var file string
	err := s.patiently(ctx, func() error {
		return s.db.QueryRowContext(ctx, `SELECT coalesce(file, '') FROM pragma_database_list WHERE name = 'main'`).Scan(&file)
	})
	if err == nil && file != "" {
		s.file = file
	}
	return err
}
