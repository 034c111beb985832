package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// A database holds the sessions.
type database struct {
	name  string
	store store
	// seed inserts active sessions into the table itself, because no store can back-date a session. It inserts none if
	// there are sessions.
	seed  func(ctx context.Context, n, stalled int) (inserted int64, err error)
	close func() error
}

// A store is what a sweeper and a page need of one.
type store interface {
	session.Store
	session.Lister
}

// validDSN reports whether -dsn names a known kind of database.
func validDSN(dsn string) bool {
	path, isSQLite := strings.CutPrefix(dsn, "sqlite:")
	return dsn == "" || isSQLite && path != "" ||
		strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// open opens the database that -dsn names. It makes the tables where there are none, but not for a dry run, which
// writes nothing.
func open(ctx context.Context, dsn string, dryRun bool) (*database, error) {
	path, isSQLite := strings.CutPrefix(dsn, "sqlite:")
	switch {
	case dsn == "":
		return openTemporary(ctx)
	case isSQLite && dryRun:
		return openExisting(ctx, path)
	case isSQLite:
		return openSQLite(ctx, path)
	}
	return openPostgres(ctx, dsn, dryRun)
}

func openTemporary(ctx context.Context) (*database, error) {
	folder, err := os.MkdirTemp("", "sweeper")
	if err != nil {
		return nil, err
	}
	db, err := openSQLite(ctx, filepath.Join(folder, "sessions.db"))
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	closeDB := db.close
	db.close = func() error { return errors.Join(closeDB(), os.RemoveAll(folder)) }
	db.name = "SQLite"
	return db, nil
}

func openSQLite(ctx context.Context, path string) (*database, error) {
	store, err := sqlite.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	seed := func(ctx context.Context, n, stalled int) (int64, error) { return seedSQLite(ctx, path, n, stalled) }
	return &database{name: path, store: store, seed: seed, close: store.Close}, nil
}

// openExisting opens an SQLite file that has the tables. [sqlite.Open] would make the file and the tables, and change
// the journal mode.
func openExisting(ctx context.Context, path string) (*database, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s, and a dry run makes none: name the database of a host", path)
	}
	db, err := connectSQLite(path)
	if err != nil {
		return nil, err
	}
	var found int
	err = db.QueryRowContext(ctx, `
		SELECT count(*) FROM sqlite_master WHERE name IN ('events', 'watchdog_sessions', 'watchdog_schema')`).Scan(&found)
	if err = tablesError(path, found, err); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	store, err := sqlite.New(ctx, db)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &database{name: path, store: store, close: func() error { return errors.Join(store.Close(), db.Close()) }}, nil
}

// tablesError returns why a dry run cannot look at a database, if it cannot. A store would make its missing tables.
func tablesError(name string, found int, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("look for the tables of %s: %w", name, err)
	case found < 3:
		return fmt.Errorf("%s has no table of sessions, and a dry run makes none: name the database of a host", name)
	}
	return nil
}

// connectSQLite connects to a file that exists.
func connectSQLite(path string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// The timeout waits for other sweepers that write. The URI escapes the path: a question mark in it would begin the
	// driver's parameters.
	source := url.URL{
		Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: "mode=rw&_pragma=busy_timeout(10000)",
	}
	return sql.Open("sqlite", source.String())
}

func openPostgres(ctx context.Context, dsn string, dryRun bool) (*database, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		// pgx's own error may quote the password.
		return nil, errors.New("-dsn cannot be parsed: write postgres://user:password@host:5432/database")
	}
	if dryRun {
		err = findTables(ctx, pool)
	}
	var store *postgres.Store
	if err == nil {
		store, err = postgres.New(ctx, pool, postgres.Config{})
	}
	if err != nil {
		pool.Close()
		return nil, err
	}
	seed := func(ctx context.Context, n, stalled int) (int64, error) { return seedPostgres(ctx, pool, n, stalled) }
	return &database{name: "PostgreSQL", store: store, seed: seed, close: func() error {
		err := store.Close()
		pool.Close()
		return err
	}}, nil
}

func findTables(ctx context.Context, pool *pgxpool.Pool) error {
	var found int
	err := pool.QueryRow(ctx, `
		SELECT count(to_regclass(quote_ident(current_schema()) || '.' || name))
		FROM unnest(array['events', 'watchdog_sessions', 'watchdog_schema']) AS names (name)`).Scan(&found)
	return tablesError("PostgreSQL", found, err)
}
