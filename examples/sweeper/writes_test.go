package main_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// TestWritesNothing expects that nothing is written into a database that was not asked for.
func TestWritesNothing(t *testing.T) {
	t.Run("into an SQLite file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "sessions.db")
		writesNothing(t, "sqlite:"+path, func() any {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			return text
		})
	})
	t.Run("into PostgreSQL", func(t *testing.T) {
		dsn := postgresServer.DSN(t)
		writesNothing(t, dsn, func() any {
			return rowsOf(t, dsn, "SELECT s::text FROM watchdog_sessions s UNION ALL SELECT e::text FROM events e ORDER BY 1")
		})
	})
}

// writesNothing runs the program on a database with sessions, whose content read returns, in each way that is to leave
// it unchanged.
func writesNothing(t *testing.T, dsn string, read func() any) {
	t.Helper()
	status, _, errs := sweep(t, "-dsn", dsn, "-seed", "20", "-stalled", "12", "-once")
	require.Zero(t, status, errs)
	before := read()
	for _, seed := range []string{"1", "1000"} {
		status, out, errs := sweep(t, "-dsn", dsn, "-seed", seed, "-stalled", "1", "-once")
		require.Equal(t, 1, status)
		require.Contains(t, errs, "-seed "+seed)
		require.Contains(t, errs, "has sessions, and nothing in it was changed: leave out -seed")
		require.Empty(t, out)
		require.Equal(t, before, read(), "-seed into a database with sessions")
	}
	status, out, errs := sweep(t, "-dsn", dsn, "-dry-run", "-once")
	require.Zero(t, status, errs)
	require.Contains(t, out, "2 checked, 2 stalled, 0 cancelled")
	require.Equal(t, before, read(), "-dry-run")

	t.Setenv("WATCHDOG_DISABLED", "true")
	_, _, errs = sweep(t, "-dsn", dsn, "-once")
	require.Contains(t, errs, "the sweeper is disabled: see sweep.enabled and runtime_controls.disabled")
	require.Equal(t, before, read(), "disabled")
}

func TestSeedOnlyIfSet(t *testing.T) {
	for name, dsn := range map[string]string{
		"SQLite": "sqlite:" + filepath.Join(t.TempDir(), "new.db"), "PostgreSQL": postgresServer.DSN(t),
	} {
		t.Run(name, func(t *testing.T) {
			for range 2 {
				status, out, errs := sweep(t, "-dsn", dsn, "-once")
				require.Zero(t, status, errs)
				require.NotContains(t, out, "active sessions")
				require.Contains(t, out, "pass 1: 0 checked")
			}
			status, out, errs := sweep(t, "-dsn", dsn, "-seed", "3", "-once")
			require.Zero(t, status, errs)
			require.Contains(t, out, "3 active sessions in", "an empty database takes them")
			require.Contains(t, out, "3 of them stalled", "as many as there are, at most")
		})
	}
}

// TestDryRunMakesNoTables runs it where there are none.
func TestDryRunMakesNoTables(t *testing.T) {
	t.Run("an SQLite file that does not exist", func(t *testing.T) {
		folder := t.TempDir()
		status, out, errs := sweep(t, "-dsn", "sqlite:"+filepath.Join(folder, "new.db"), "-dry-run", "-once")
		require.Equal(t, 1, status, out)
		require.Contains(t, errs, "there is no file")
		left, err := os.ReadDir(folder)
		require.NoError(t, err)
		require.Empty(t, left)
	})
	t.Run("an empty PostgreSQL database", func(t *testing.T) {
		dsn := postgresServer.DSN(t)
		status, out, errs := sweep(t, "-dsn", dsn, "-dry-run", "-once")
		require.Equal(t, 1, status, out)
		require.Contains(t, errs, "it has no table of events, and none is created")
		require.Empty(t, rowsOf(t, dsn, "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace"))
	})
}

// TestSeedTwiceAtOnce starts several programs at once, of which one may insert.
func TestSeedTwiceAtOnce(t *testing.T) {
	for name, dsn := range map[string]string{
		"SQLite": "sqlite:" + filepath.Join(t.TempDir(), "new.db"), "PostgreSQL": postgresServer.DSN(t),
	} {
		t.Run(name, func(t *testing.T) {
			const programs = 4
			statuses := make(chan int, programs)
			for i := range programs {
				go func() {
					status, _, _ := sweep(t, "-dsn", dsn, "-seed", strconv.Itoa(10+i), "-stalled", "0", "-once")
					statuses <- status
				}()
			}
			sum := 0
			for range programs {
				sum += <-statuses
			}
			require.Equal(t, programs-1, sum, "all but one fail with status 1")
		})
	}
}

// rowsOf returns the rows of a query for one text each.
func rowsOf(t *testing.T, dsn, query string) []string {
	t.Helper()
	connection, err := pgx.Connect(t.Context(), dsn)
	require.NoError(t, err)
	rows, err := connection.Query(t.Context(), query)
	require.NoError(t, err)
	texts, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.NoError(t, connection.Close(t.Context()))
	return texts
}
