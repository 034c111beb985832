package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The rows of both databases: first the stalled ones, each a minute older, then those with an event in the last five
// minutes. The statement itself looks whether there is a session, so that none comes in between.
const (
	sqliteRows = `
		WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1),
		ages(i, age) AS (SELECT i, CASE WHEN i <= ?2 THEN 900 + 60 * i ELSE i % 300 END FROM n)
		INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, host, attempt)
			SELECT printf('%s-%07d', ?3, i), 'active', at(-7200 - age), at(-age), at(-7200 - age), 'host-' || (i % 3), 1
			FROM ages WHERE NOT EXISTS (SELECT 1 FROM watchdog_sessions)`
	postgresRows = `
		INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, host, attempt)
			SELECT format('%s-%s', $3::text, lpad(i::text, 7, '0')), 'active',
				now() - (7200 + age) * interval '1 second', now() - age * interval '1 second',
			now() - (7200 + age) * interval '1 second', 'host-' || (i % 3), 1
			FROM (
				SELECT i, CASE WHEN i <= $2::int THEN 900 + 60 * i ELSE i % 300 END AS age
				FROM generate_series(1, $1::int) AS n(i)
			) AS ages WHERE NOT EXISTS (SELECT 1 FROM watchdog_sessions)`
)

// insert inserts the sessions of -seed. In a database that has sessions it changes nothing and returns an error.
func (d *database) insert(ctx context.Context, n, stalled int, stdout io.Writer) error {
	if n == 0 {
		return nil
	}
	began := time.Now()
	inserted, err := d.seed(ctx, n, stalled)
	switch {
	case err != nil:
		return fmt.Errorf("insert sessions: %w", err)
	case inserted == 0:
		return fmt.Errorf("-seed %d: the database %s has sessions, and nothing in it was changed: "+
			"leave out -seed to sweep those, or name an empty database", n, d.name)
	}
	_, _ = fmt.Fprintf(stdout, "%d active sessions in %s, %d of them stalled (%v)\n",
		inserted, d.name, stalled, time.Since(began).Round(time.Millisecond))
	return nil
}

// prefix returns the start of the run IDs that this program inserts.
func prefix() string { return fmt.Sprintf("seed-%x", time.Now().UnixMilli()) }

func seedSQLite(ctx context.Context, path string, n, stalled int) (inserted int64, err error) {
	db, err := connectSQLite(path)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	rows := strings.NewReplacer(
		"at(-7200 - age)", sqliteTime("-7200 - age"), "at(-age)", sqliteTime("-age"),
	).Replace(sqliteRows)
	result, err := db.ExecContext(ctx, rows, n, stalled, prefix())
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// sqliteTime returns the SQL of a time some seconds from now, in the format of the table.
func sqliteTime(seconds string) string {
	return "strftime('%Y-%m-%d %H:%M:%f000', 'now', (" + seconds + ") || ' seconds')"
}

func seedPostgres(ctx context.Context, pool *pgxpool.Pool, n, stalled int) (inserted int64, err error) {
	err = pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		// Two of these programs at once would both find the table empty. A lock of the table would hold up its hosts.
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtext('watchdog sweeper -seed'))"); err != nil {
			return err
		}
		result, err := tx.Exec(ctx, postgresRows, n, stalled, prefix())
		inserted = result.RowsAffected()
		return err
	})
	if err != nil || inserted == 0 {
		return 0, err
	}
	_, err = pool.Exec(ctx, "ANALYZE watchdog_sessions")
	return inserted, err
}
