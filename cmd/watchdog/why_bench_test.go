package main_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	watchdog "github.com/seed62658d38/watchdog/cmd/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/why"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// A million events of a hundred thousand runs, every tenth of which is a layer of the one before.
const (
	millionSQLite = `WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 999999)
		INSERT INTO events (id, aggregate_type, aggregate_id, event_type, payload, timestamp)
		SELECT printf('%036d', i), 'runtime_control', printf('r-%d', i / 10), 'runtime.watchdog.retry',
			CASE WHEN i / 10 % 10 = 9
				THEN json_object('parent', printf('r-%d', i / 10 - 1), 'session_started_at', '2026-05-01T12:00:00.000000Z',
					'reason', 'idle_exceeded', 'directive', 'retry', 'attempt', 1, 'event_version', 1)
				ELSE json_object('session_started_at', '2026-05-01T12:00:00.000000Z', 'reason', 'idle_exceeded',
					'directive', 'retry', 'attempt', 1, 'event_version', 1) END,
			strftime('%Y-%m-%d %H:%M:%S.000000', '2026-05-01', printf('+%d seconds', i))
		FROM n`
	millionPostgres = `INSERT INTO events (id, aggregate_type, aggregate_id, event_type, payload, "timestamp")
		SELECT lpad(i::text, 36, '0'), 'runtime_control', 'r-' || i / 10, 'runtime.watchdog.retry',
			CASE WHEN i / 10 % 10 = 9
				THEN json_build_object('parent', 'r-' || i / 10 - 1, 'session_started_at', '2026-05-01T12:00:00.000000Z',
					'reason', 'idle_exceeded', 'directive', 'retry', 'attempt', 1)
				ELSE json_build_object('session_started_at', '2026-05-01T12:00:00.000000Z', 'reason', 'idle_exceeded',
					'directive', 'retry', 'attempt', 1) END,
			timestamptz '2026-05-01' + i * interval '1 second'
		FROM generate_series(0, 999999) AS n (i)`
)

// BenchmarkWhy tells the story of one run, which has a layer, among 1,000,000 events: with a store that is
// open, with one that is opened each time, as by a command, and as a whole command with its process.
func BenchmarkWhy(b *testing.B) {
	b.Run("SQLite", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "watchdog.db")
		benchWhy(b, "sqlite:"+path, "sqlite", path, millionSQLite)
	})
	b.Run("PostgreSQL", func(b *testing.B) {
		server := pgtest.Start(b, pgtest.Options{})
		dsn := server.DSN(server.Database(b))
		benchWhy(b, dsn, "pgx", dsn, millionPostgres)
	})
}

func benchWhy(b *testing.B, url, driver, source, million string) {
	b.Helper()
	store := openStore(b, url)
	stopped(b, store, "s-1")
	require.NoError(b, store.Close())
	db, err := sql.Open(driver, source)
	require.NoError(b, err)
	began := time.Now()
	_, err = db.ExecContext(b.Context(), million)
	require.NoError(b, err)
	_, err = db.ExecContext(b.Context(), "ANALYZE")
	require.NoError(b, err)
	require.NoError(b, db.Close())
	b.Logf("a million events took %v", time.Since(began))
	devNull, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(b, err)
	defer devNull.Close()
	b.Run("reading", func(b *testing.B) {
		opened := openStore(b, url)
		defer func() { require.NoError(b, opened.Close()) }()
		for b.Loop() {
			_, err := why.Read(b.Context(), opened, "r-55558")
			require.NoError(b, err)
		}
	})
	b.Run("in process", func(b *testing.B) {
		p := watchdog.Program{Stdin: devNull, Stdout: devNull, Stderr: os.Stderr}
		for b.Loop() {
			require.Zero(b, p.Run(b.Context(), []string{"why", "--store", url, "r-55558"}))
		}
	})
	b.Run("as a command", func(b *testing.B) {
		for b.Loop() {
			text, err := programCmd(b, nil, "why", "--store", url, "r-55558").CombinedOutput()
			require.NoError(b, err, string(text))
			require.Contains(b, string(text), "r-55559")
		}
	})
}
