package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// A database holds the sessions.
type database struct {
	name  string
	store session.Store
	// seed inserts active sessions into the table itself, because no store can back-date a session.
	seed  func(ctx context.Context, n, stalled int) error
	close func() error
}

// validDSN reports whether -dsn names a known kind of database.
func validDSN(dsn string) bool {
	path, isSQLite := strings.CutPrefix(dsn, "sqlite:")
	return dsn == "" || isSQLite && path != "" ||
		strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// open opens the database that -dsn names.
func open(ctx context.Context, dsn string) (*database, error) {
	if dsn == "" {
		return openTemporary(ctx)
	}
	if path, isSQLite := strings.CutPrefix(dsn, "sqlite:"); isSQLite {
		return openSQLite(ctx, path)
	}
	return openPostgres(ctx, dsn)
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
	seed := func(ctx context.Context, n, stalled int) error { return seedSQLite(ctx, path, n, stalled) }
	return &database{name: path, store: store, seed: seed, close: store.Close}, nil
}

// The rows of both databases: first the stalled ones, each a minute older, then those with an event in the last five
// minutes.
const (
	sqliteRows = `
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1),
		ages(i, age) AS (SELECT i, CASE WHEN i <= ?2 THEN 900 + 60 * i ELSE i % 300 END FROM n)
		INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, host, attempt)
			SELECT printf('%s-%07d', ?3, i), 'active', at(-7200 - age), at(-age), at(-7200 - age), 'host-' || (i % 3), 1
			FROM ages`
	postgresRows = `
		INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, host, attempt)
			SELECT format('%s-%s', $3::text, lpad(i::text, 7, '0')), 'active',
				now() - (7200 + age) * interval '1 second', now() - age * interval '1 second',
			now() - (7200 + age) * interval '1 second', 'host-' || (i % 3), 1
			FROM (
				SELECT i, CASE WHEN i <= $2::int THEN 900 + 60 * i ELSE i % 300 END AS age
				FROM generate_series(1, $1::int) AS n(i)
			) AS ages`
)

// prefix returns the start of the run IDs that this program inserts.
func prefix() string { return fmt.Sprintf("seed-%x", time.Now().UnixMilli()) }

func seedSQLite(ctx context.Context, path string, n, stalled int) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	// The timeout waits for other sweepers that write. The URI escapes the path: a question mark in it would begin the
	// driver's parameters.
	source := url.URL{
		Scheme: "file", OmitHost: true, Path: filepath.ToSlash(path), RawQuery: "_pragma=busy_timeout(10000)",
	}
	db, err := sql.Open("sqlite", source.String())
	if err != nil {
		return err
	}
	rows := strings.NewReplacer(
		"at(-7200 - age)", sqliteTime("-7200 - age"), "at(-age)", sqliteTime("-age"),
	).Replace(sqliteRows)
	_, err = db.ExecContext(ctx, rows, n, stalled, prefix())
	return errors.Join(err, db.Close())
}

// sqliteTime returns the SQL of a time some seconds from now, in the format of the table.
func sqliteTime(seconds string) string {
	return "strftime('%Y-%m-%d %H:%M:%f000', 'now', (" + seconds + ") || ' seconds')"
}

func openPostgres(ctx context.Context, dsn string) (*database, error) {
	pool, err := pgxpool.New(ctx, dsn)
	if err != nil {
		// pgx's own error may quote the password.
		return nil, errors.New("-dsn cannot be parsed: write postgres://user:password@host:5432/database")
	}
	store, err := postgres.New(ctx, pool, postgres.Config{})
	if err != nil {
		pool.Close()
		return nil, err
	}
	seed := func(ctx context.Context, n, stalled int) error {
		if _, err := pool.Exec(ctx, postgresRows, n, stalled, prefix()); err != nil {
			return err
		}
		_, err := pool.Exec(ctx, "ANALYZE watchdog_sessions")
		return err
	}
	return &database{name: "PostgreSQL", store: store, seed: seed, close: func() error {
		err := store.Close()
		pool.Close()
		return err
	}}, nil
}
