package main_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver of the statements of tests
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/session"
)

// A testStore is a store of which a program can be told.
type testStore struct {
	stores.Database
	url string // for --store
	// exec changes the tables.
	exec func(statement string)
	// close closes what the test has open.
	close func()
}

// eachStore runs a test with SQLite, and in a long run with PostgreSQL: what differs is tested with the stores, and
// that the program opens both with bothStores.
func eachStore(t *testing.T, test func(t *testing.T, s testStore)) {
	t.Helper()
	eachURL(t, racing.Long, func(t *testing.T, url string) { test(t, openStore(t, url)) })
}

func bothStores(t *testing.T, test func(t *testing.T, s testStore)) {
	t.Helper()
	eachURL(t, true, func(t *testing.T, url string) { test(t, openStore(t, url)) })
}

// eachURL runs a test with a store of each kind that is to be made, those of PostgreSQL included or not.
func eachURL(t *testing.T, postgres bool, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run("in SQLite", func(t *testing.T) { t.Parallel(); test(t, "sqlite:"+filepath.Join(t.TempDir(), "watchdog.db")) })
	if postgres {
		t.Run("in PostgreSQL", func(t *testing.T) { t.Parallel(); test(t, postgresServer.DSN(t)) })
	}
}

func sqliteStore(tb testing.TB) testStore {
	tb.Helper()
	return openStore(tb, "sqlite:"+filepath.Join(tb.TempDir(), "watchdog.db"))
}

// openStore opens the store of a URL, and makes what is missing.
func openStore(tb testing.TB, url string) testStore {
	tb.Helper()
	driver, source := "pgx", url
	if path, is := strings.CutPrefix(url, "sqlite:"); is {
		driver, source = "sqlite", "file:"+path+"?_pragma=busy_timeout(10000)"
	}
	store, err := stores.Open(tb.Context(), url, stores.Writing)
	require.NoError(tb, err)
	db, err := sql.Open(driver, source) // which connects when it is used
	require.NoError(tb, err)
	db.SetMaxOpenConns(1)
	s := testStore{Database: store, url: url, exec: func(statement string) {
		_, err := db.ExecContext(tb.Context(), statement)
		require.NoError(tb, err)
	}, close: func() { assert.NoError(tb, store.Close()); assert.NoError(tb, db.Close()) }}
	tb.Cleanup(s.close)
	return s
}

// program runs the program with the store.
func (s testStore) program(t *testing.T, args ...string) outcome {
	t.Helper()
	return program(t, append(args, "--store", s.url)...)
}

// attach makes a row of a run that began an hour ago.
func (s testStore) attach(t *testing.T, run session.Session) session.Session {
	t.Helper()
	run.StartedAt = time.Now().Add(-time.Hour).UTC().Truncate(time.Microsecond)
	_, after, err := s.Attach(t.Context(), run)
	require.NoError(t, err)
	return after
}

func TestStoreErrors(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	missing := filepath.Join(t.TempDir(), "nosuch.db")
	for name, test := range map[string]struct{ store, says string }{
		"no store":                       {"", "write --store sqlite:PATH"},
		"a path without sqlite:":         {"state/" + secret + ".db", "write sqlite:PATH for a file"},
		"a connection string of no kind": {"host=db password=" + secret, "write sqlite:PATH for a file"},
		"a URL of another database":      {"mysql://app:" + secret + "@db/agents", "there is no store mysql://"},
		"a database that is not there": {
			"postgres://app:" + secret + "@127.0.0.1:1/agents", "no server listens there: start it, or check host and port",
		},
		"a wrong connection string": {"postgres://app:" + secret + "@db:port/agents", "cannot be understood"},
		"a missing file":            {"sqlite:" + missing, "there is no file " + missing + ", and none is created"},
	} {
		t.Run(name+" is an error that says what to do", func(t *testing.T) {
			for _, command := range [][]string{{"sessions"}, {"complete", "run-1"}, {"resume", "run-1"}} {
				o := program(t, append(command, "--store", test.store)...)
				assert.Equal(t, 125, o.status)
				assert.Contains(t, o.stderr, test.says)
				assert.Empty(t, o.stdout)
				assert.NotContains(t, o.stderr, secret)
				assert.Equal(t, 1, strings.Count(o.stderr, "\n"), o.stderr)
			}
		})
	}
	_, err := os.Stat(missing)
	assert.ErrorIs(t, err, os.ErrNotExist)
}

// cancelOf is the cancel of a run by another guard, in a window that began at a time.
func cancelOf(runID string, startedAt time.Time) watchdog.Event {
	return watchdog.Event{
		ID: "cancel of " + runID, AggregateType: watchdog.AggregateType, AggregateID: runID, Type: watchdog.EventCancel,
		Payload: []byte(`{"reason":"wall_clock","session_started_at":"` + startedAt.Format("2006-01-02T15:04:05.000000Z") +
			`","fired_at":"` + startedAt.Add(time.Minute).Format("2006-01-02T15:04:05.000000Z") +
			`","elapsed_seconds":60,"configured_budget_seconds":59}`),
		Timestamp: startedAt.Add(time.Minute),
	}
}
