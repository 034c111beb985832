package main_test

import (
	"bufio"
	"database/sql"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
		assert.Zero(t, o.status, o.stderr)
		assert.Contains(t, o.stdout, "1 stalled, 0 cancelled")
		assert.Contains(t, o.stdout, "  would_cancel  stalled on host-a: silent for 1h0m")
		after, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, before, after)
		assert.Equal(t, session.Active, statusOf(t, path, "stalled"))
	})
	t.Run("one pass cancels what stalled and leaves the others", func(t *testing.T) {
		store, path := stalledStore(t)
		o := program(t, "sweep", store, "--once", "--json")
		assert.Zero(t, o.status, o.stderr)
		var pass struct {
			Cancelled int
			Sessions  []map[string]any
		}
		require.NoError(t, json.Unmarshal([]byte(o.stdout), &pass))
		assert.Equal(t, 1, pass.Cancelled)
		assert.Equal(t, "stalled", pass.Sessions[0]["run_id"])
		assert.Equal(t, "cancelled", pass.Sessions[0]["handling"])
		assert.Equal(t, "watchdog_idle_timeout", pass.Sessions[0]["reason"])
		assert.Equal(t, session.Cancelled, statusOf(t, path, "stalled"))
		assert.Equal(t, session.Active, statusOf(t, path, "busy"))
	})
	t.Run("what was seen of a process that died is said", func(t *testing.T) {
		store, path := stalledStore(t)
		db, err := sql.Open("sqlite", path)
		require.NoError(t, err)
		_, err = db.ExecContext(t.Context(), `UPDATE watchdog_sessions SET lost = TRUE,
			expired_lease = '4 1777636800000000 5f0a' WHERE run_id = 'stalled'`)
		require.NoError(t, err)
		o := program(t, "sweep", store, "--once", "--dry-run")
		assert.Contains(t, o.stdout, `, its host was lost: lease "5f0a" not renewed since 2026-05-01T12:00:00Z in 4 looks`+"\n")
		assert.Contains(t, program(t, "sweep", store, "--once", "--dry-run", "--json").stdout, `"reason":"watchdog_host_lost"`)
		_, err = db.ExecContext(t.Context(), `UPDATE watchdog_sessions SET expired_lease = NULL`)
		require.NoError(t, err)
		require.NoError(t, db.Close())
		o = program(t, "sweep", store, "--once")
		assert.Contains(t, o.stdout, ", its host was lost\n", "the row says no more")
		assert.Equal(t, session.Cancelled, statusOf(t, path, "stalled"))
	})
	t.Run("a signal ends it gracefully", func(t *testing.T) {
		store, path := stalledStore(t)
		settings := file(t, "watchdog.yaml", "sweep:\n  startup_delay: 1ms\n  interval: 1s\n")
		cmd := programCmd(t, nil, "sweep", store, "--config", settings)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		var said strings.Builder
		cmd.Stderr = &said
		require.NoError(t, cmd.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		assert.Contains(t, line, "1 cancelled")
		require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
		_, _ = io.Copy(io.Discard, out)
		require.NoError(t, cmd.Wait(), said.String())
		assert.Contains(t, said.String(), "worst time from the last sign of life to the cancel")
		assert.Equal(t, session.Cancelled, statusOf(t, path, "stalled"))
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
			assert.Equal(t, 125, o.status, settings)
			assert.Contains(t, o.stderr, want)
			assert.Empty(t, o.stdout)
		}
		assert.Equal(t, session.Active, statusOf(t, path, "stalled"))
		o := program(t, "sweep", "--once")
		assert.Equal(t, 125, o.status)
		assert.Contains(t, o.stderr, "no store is named")
		o = program(t, "sweep", "--store=mysql://user:canary@host/db", "--once")
		assert.Equal(t, 125, o.status)
		assert.NotContains(t, o.stderr, "canary")
	})
}
