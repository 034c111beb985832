package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// A store is what a sweeper and a page need of one.
type store interface {
	session.Store
	session.Lister
	io.Closer
}

// sqlitePath returns the path of a -dsn that names an SQLite file.
func sqlitePath(dsn string) (path string, isSQLite bool) { return strings.CutPrefix(dsn, "sqlite:") }

// validDSN reports whether -dsn names a known kind of database.
func validDSN(dsn string) bool {
	path, isSQLite := sqlitePath(dsn)
	return dsn == "" || isSQLite && path != "" ||
		strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// open opens the database that -dsn names. It makes the tables where there are none, unless it may only read.
func open(ctx context.Context, dsn string, readOnly bool) (store, error) {
	path, isSQLite := sqlitePath(dsn)
	switch {
	case isSQLite && readOnly:
		return sqlite.OpenReadOnly(ctx, path)
	case isSQLite:
		return sqlite.Open(ctx, path)
	}
	return postgres.Open(ctx, dsn, postgres.Config{ReadOnly: readOnly})
}

// The statements that insert sessions into the table itself, because no store can back-date one. First come the stalled
// ones, each a minute older, then those with an event in the last five minutes. They look themselves whether there is a
// session. In PostgreSQL two of these programs at once would both find none without the lock; a lock of the table would
// hold up its hosts.
var (
	sqliteRows = []string{strings.NewReplacer(
		"at(-7200 - age)", "strftime('%Y-%m-%d %H:%M:%f000', 'now', (-7200 - age) || ' seconds')",
		"at(-age)", "strftime('%Y-%m-%d %H:%M:%f000', 'now', -age || ' seconds')",
	).Replace(`
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1),
		ages(i, age) AS (SELECT i, CASE WHEN i <= ?2 THEN 900 + 60 * i ELSE i % 300 END FROM n)
		INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, host, attempt)
			SELECT printf('%s-%07d', ?3, i), 'active', at(-7200 - age), at(-age), at(-7200 - age), 'host-' || (i % 3), 1
			FROM ages WHERE NOT EXISTS (SELECT 1 FROM watchdog_sessions)`)}
	postgresRows = []string{"SELECT pg_advisory_xact_lock(hashtext('watchdog sweeper -seed'))", `
		INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, host, attempt)
			SELECT format('%s-%s', $3::text, lpad(i::text, 7, '0')), 'active',
				now() - (7200 + age) * interval '1 second', now() - age * interval '1 second',
			now() - (7200 + age) * interval '1 second', 'host-' || (i % 3), 1
			FROM (
				SELECT i, CASE WHEN i <= $2::int THEN 900 + 60 * i ELSE i % 300 END AS age
				FROM generate_series(1, $1::int) AS n(i)
			) AS ages WHERE NOT EXISTS (SELECT 1 FROM watchdog_sessions)`}
)

// insert inserts the sessions of -seed. In a database that has sessions it changes nothing and returns an error.
func insert(ctx context.Context, dsn, name string, n, stalled int, stdout io.Writer) error {
	if n == 0 {
		return nil
	}
	began := time.Now()
	prefix := fmt.Sprintf("seed-%x", began.UnixMilli())
	inserted, err := insertRows(ctx, dsn, n, stalled, prefix)
	switch {
	case err != nil:
		return fmt.Errorf("insert sessions: %w", err)
	case inserted == 0:
		return fmt.Errorf("-seed %d: the database %s has sessions, and nothing in it was changed: "+
			"leave out -seed to sweep those, or name an empty database", n, name)
	}
	_, _ = fmt.Fprintf(stdout, "%d active sessions in %s, %d of them stalled (%v)\n",
		inserted, name, stalled, time.Since(began).Round(time.Millisecond))
	return nil
}

// insertRows executes the statements in a transaction. The parameters are those of the last one.
func insertRows(ctx context.Context, dsn string, parameters ...any) (inserted int64, err error) {
	driver, source, statements := "pgx", dsn, postgresRows
	if path, isSQLite := sqlitePath(dsn); isSQLite {
		if path, err = filepath.Abs(path); err != nil {
			return 0, err
		}
		// The URI escapes the path: a question mark in it would begin the driver's parameters.
		file := url.URL{Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: "_pragma=busy_timeout(10000)"}
		driver, source, statements = "sqlite", file.String(), sqliteRows
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer func() { _ = tx.Rollback() }() // after the commit it does nothing
	last := len(statements) - 1
	for _, statement := range statements[:last] {
		if _, err := tx.ExecContext(ctx, statement); err != nil {
			return 0, err
		}
	}
	result, err := tx.ExecContext(ctx, statements[last], parameters...)
	if err != nil {
		return 0, err
	}
	inserted, err = result.RowsAffected()
	return inserted, errors.Join(err, tx.Commit())
}
