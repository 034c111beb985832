package main_test

import (
	"database/sql"
	"encoding/json"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// waitBound is how long a test waits for a real process on a busy machine.
const waitBound = time.Minute

// stalledStore makes a store with one session that was silent for an hour and one that is not, of another writer.
func stalledStore(t *testing.T) (flag, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "events.db")
	store, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	db, err := sql.Open("sqlite", path)
	require.NoError(t, err)
	at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format("2006-01-02 15:04:05.000000") }
	_, err = db.ExecContext(t.Context(), `INSERT INTO watchdog_sessions
		(run_id, status, created_at, last_event_at, started_at, host, attempt)
		VALUES ('stalled', 'active', ?1, ?1, ?1, 'host-a', 1), ('busy', 'active', ?1, ?2, ?1, 'host-b', 1)`,
		at(time.Hour), at(0))
	require.NoError(t, err)
	require.NoError(t, db.Close())
	return "--store=sqlite:" + path, path
}

// statusOf reads the status of a session.
func statusOf(t *testing.T, path, run string) session.Status {
	t.Helper()
	store, err := sqlite.Open(t.Context(), path)
	require.NoError(t, err)
	defer store.Close()
	s, err := store.Session(t.Context(), run)
	require.NoError(t, err)
	return s.Status
}

func TestSweep(t *testing.T) {
	t.Parallel()
	t.Run("a dry run says what it would cancel, and writes nothing", func(t *testing.T) {
		store, path := stalledStore(t)
		before, err := os.ReadFile(path)
		require.NoError(t, err)
		o := program(t, "sweep", store, "--once", "--dry-run")
		require.Zero(t, o.status, o.stderr)
		require.Contains(t, o.stdout, "1 stalled, 0 cancelled")
		require.Contains(t, o.stdout, "  would_cancel  stalled on host-a: silent for 1h0m")
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, before, after)
		require.Equal(t, session.Active, statusOf(t, path, "stalled"))
	})
	t.Run("one pass cancels what stalled and leaves the others", func(t *testing.T) {
		store, path := stalledStore(t)
		o := program(t, "sweep", store, "--once", "--json")
		require.Zero(t, o.status, o.stderr)
		var pass struct {
			Cancelled int
			Sessions  []map[string]any
		}
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &pass))
		require.Equal(t, 1, pass.Cancelled)
		require.Equal(t, "stalled", pass.Sessions[0]["run_id"])
		require.Equal(t, "cancelled", pass.Sessions[0]["handling"])
		require.Equal(t, "watchdog_idle_timeout", pass.Sessions[0]["reason"])
		require.Equal(t, session.Cancelled, statusOf(t, path, "stalled"))
		require.Equal(t, session.Active, statusOf(t, path, "busy"))
	})
	t.Run("what was seen of a process that died is said", func(t *testing.T) {
		store, path := stalledStore(t)
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), `UPDATE watchdog_sessions SET lost = TRUE,
			expired_lease = '4 1777636800000000 5f0a' WHERE run_id = 'stalled'`)
		require.NoError(t, err)
		o := program(t, "sweep", store, "--once", "--dry-run")
		require.Contains(t, o.stdout, `, its host was lost: lease "5f0a" not renewed since 2026-05-01T12:00:00Z in 4 looks`+"\n")
		require.Contains(t, program(t, "sweep", store, "--once", "--dry-run", "--json").stdout, `"reason":"watchdog_host_lost"`)
		_, err = db.ExecContext(t.Context(), `UPDATE watchdog_sessions SET expired_lease = NULL`)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		o = program(t, "sweep", store, "--once")
		require.Contains(t, o.stdout, ", its host was lost\n", "the row says no more")
		require.Equal(t, session.Cancelled, statusOf(t, path, "stalled"))
	})
	t.Run("a signal ends it gracefully", func(t *testing.T) {
		store, path := stalledStore(t)
		settings := file(t, "watchdog.yaml", "sweep:\n  startup_delay: 1ms\n  interval: 1s\n")
		p := begin(t, programCmd(t, nil, "sweep", store, "--config", settings))
		require.Contains(t, p.until(""), "1 cancelled")
		p.signal(syscall.SIGTERM)
		require.Contains(t, p.end().must(t, 0).stderr, "worst time from the last sign of life to the cancel")
		require.Equal(t, session.Cancelled, statusOf(t, path, "stalled"))
	})
	t.Run("what is wrong is said, and nothing is swept", func(t *testing.T) {
		store, path := stalledStore(t)
		for settings, want := range map[string]string{
			"sweep:\n  enabled: false\n":   "the sweeper is switched off",
			"sweep:\n  max_resumes: 1\n":   "this program starts no sessions",
			"sweep:\n  intervall: 1m\n":    "did you mean interval?",
			"sweep:\n  interval: -1m\n":    "-1m",
			"sweep:\n  interval: later\n ": "later",
		} {
			o := program(t, "sweep", store, "--once", "--config", file(t, "watchdog.yaml", settings))
			require.Equal(t, 125, o.status, settings)
			require.Contains(t, o.stderr, want)
			require.Empty(t, o.stdout)
		}
		require.Equal(t, session.Active, statusOf(t, path, "stalled"))
		o := program(t, "sweep", "--once")
		require.Equal(t, 125, o.status)
		require.Contains(t, o.stderr, "no store is named")
		o = program(t, "sweep", "--store=mysql://user:canary@host/db", "--once")
		require.Equal(t, 125, o.status)
		require.NotContains(t, o.stderr, "canary")
	})
}
