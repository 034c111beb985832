package sweeptest_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// A database reads the tables without the library.
type database struct {
	*sql.DB
	dsn    string
	server *pgtest.Server // nil for SQLite
	rows   string         // inserts rows; its parameters are the number of all and of stalled ones
	// processes, stalled and woken are the sizes of the test with many sweepers.
	processes, stalled, woken int
}

// A store is a host's store that can be closed.
type store interface {
	session.Store
	io.Closer
}

// openStore opens an SQLite path or a PostgreSQL connection string.
func openStore(ctx context.Context, dsn string) (store, error) {
	if strings.HasPrefix(dsn, "postgres:") {
		return postgres.Open(ctx, dsn, postgres.Config{})
	}
	return sqlite.Open(ctx, dsn)
}

func newSQLite(t *testing.T) *database {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sessions.db")
	db := &database{dsn: file, rows: sqliteRows, processes: 3, stalled: 200, woken: 50}
	return db.open(t, "sqlite", "file:"+file+"?_pragma=busy_timeout(20000)")
}

func newPostgres(t *testing.T, server *pgtest.Server) *database {
	t.Helper()
	dsn := server.DSN(server.Database(t))
	db := &database{dsn: dsn, server: server, rows: postgresRows, processes: 5, stalled: 2000, woken: 500}
	if racing.Enabled {
		db.stalled, db.woken = 400, 100
	}
	return db.open(t, "pgx", dsn)
}

// open makes a store create the tables, then opens the database for the test.
func (db *database) open(t *testing.T, driver, source string) *database {
	t.Helper()
	db.store(t)
	plain, err := sql.Open(driver, source)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, plain.Close()) })
	db.DB = plain
	return db
}

// store opens another host's store.
func (db *database) store(t *testing.T) store {
	t.Helper()
	s, err := openStore(t.Context(), db.dsn)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// The rows of both databases: first the stalled ones, each a minute older, then those with an event in the last five
// minutes.
const (
	sqliteRows = `
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1),
			ages(i, age) AS (SELECT i, CASE WHEN i <= ?2 THEN 900 + 60 * i ELSE i % 300 END FROM n),
		times(i, at) AS (SELECT i, strftime('%Y-%m-%d %H:%M:%f000', 'now', -age || ' seconds') FROM ages)
		INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, host, attempt)
			SELECT printf('run-%07d', i), 'active', '2026-01-01 00:00:00.000000', at, '2026-01-01 00:00:00.000000',
				'host-' || (i % 3), 1
			FROM times`
	postgresRows = `
		INSERT INTO watchdog_sessions (run_id, status, created_at, last_event_at, started_at, host, attempt)
			SELECT format('run-%s', lpad(i::text, 7, '0')), 'active', '2026-01-01Z', now() - age * interval '1 second',
				'2026-01-01Z', 'host-' || (i % 3), 1
			FROM (
				SELECT i, CASE WHEN i <= $2::int THEN 900 + 60 * i ELSE i % 300 END AS age
				FROM generate_series(1, $1::int) AS n(i)
			) AS ages`
)

func runNumber(i int) string { return fmt.Sprintf("run-%07d", i) }

// seed inserts n active sessions, some of them stalled.
func (db *database) seed(t *testing.T, n, stalled int) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), db.rows, n, stalled)
	require.NoError(t, err)
	_, err = db.ExecContext(t.Context(), "ANALYZE watchdog_sessions")
	require.NoError(t, err)
}

// cancelled counts the cancelled rows. It returns 0 while the database is down.
func (db *database) cancelled() (n int) {
	const count = "SELECT count(*) FROM watchdog_sessions WHERE status = 'cancelled'"
	err := db.QueryRowContext(context.Background(), count).Scan(&n)
	if err != nil {
		return 0
	}
	return n
}

// statuses returns the status of every row by run ID.
func (db *database) statuses(t *testing.T) map[string]string {
	t.Helper()
	return pairs[string](t, db, "SELECT run_id, status FROM watchdog_sessions")
}

// cancels returns the number of cancel events by run ID.
func (db *database) cancels(t *testing.T) map[string]int {
	t.Helper()
	return pairs[int](t, db, fmt.Sprintf(
		"SELECT aggregate_id, count(*) FROM events WHERE event_type = '%s' GROUP BY aggregate_id", watchdog.EventCancel))
}

func pairs[V any](t *testing.T, db *database, query string) map[string]V {
	t.Helper()
	rows, err := db.QueryContext(t.Context(), query)
	require.NoError(t, err)
	defer rows.Close()
	all := map[string]V{}
	for rows.Next() {
		var key string
		var value V
		require.NoError(t, rows.Scan(&key, &value))
		all[key] = value
	}
	require.NoError(t, rows.Err())
	return all
}
