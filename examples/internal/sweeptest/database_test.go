package sweeptest_test

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	zone   string         // of the times that are written
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
	db := &database{dsn: file, processes: 3, stalled: 200, woken: 50}
	return db.open(t, "sqlite", "file:"+file+"?_pragma=busy_timeout(20000)")
}

func newPostgres(t *testing.T, server *pgtest.Server) *database {
	t.Helper()
	dsn := server.DSN(server.Database(t))
	db := &database{dsn: dsn, server: server, zone: "Z", processes: 5, stalled: 2000, woken: 500}
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

func runNumber(i int) string { return fmt.Sprintf("run-%07d", i) }

// seed inserts n active sessions. First come the stalled ones, each a minute older, then those with an event in the
// last five minutes.
func (db *database) seed(t *testing.T, n, stalled int) {
	t.Helper()
	var rows []string
	for i := 1; i <= n; i++ {
		age := time.Duration(i%300) * time.Second
		if i <= stalled {
			age = 15*time.Minute + time.Duration(i)*time.Minute
		}
		const layout, began = "2006-01-02 15:04:05.000000", "2026-01-01 00:00:00.000000"
		last := time.Now().Add(-age).UTC().Format(layout)
		rows = append(rows, fmt.Sprintf("('%[1]s', 'active', '%[2]s%[4]s', '%[3]s%[4]s', '%[2]s%[4]s', 'host', 1)",
			runNumber(i), began, last, db.zone))
	}
	_, err := db.ExecContext(t.Context(), "INSERT INTO watchdog_sessions "+
		"(run_id, status, created_at, last_event_at, started_at, host, attempt) VALUES "+strings.Join(rows, ", "))
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
