package sqlite_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

func TestNewSessions(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	openAt(t, file)
	columns := queryAll(t, openPlain(t, file), `SELECT name, type, "notnull", pk
		FROM pragma_table_xinfo('watchdog_sessions') WHERE hidden = 0`)
	want := []string{
		"run_id", "VARCHAR(255)", "1", "1",
		"parent", "VARCHAR(255)", "1", "0",
		"status", "VARCHAR(20)", "1", "0",
		"created_at", "TEXT", "1", "0",
		"last_event_at", "TEXT", "0", "0",
		"threshold", "INTEGER", "1", "0",
		"started_at", "TEXT", "1", "0",
		"host", "TEXT", "1", "0",
		"attempt", "INTEGER", "1", "0",
		"resumes", "INTEGER", "1", "0",
		"reason", "TEXT", "1", "0",
		"lease", "TEXT", "0", "0",
		"activity", "INTEGER", "0", "0",
		"quiet_since", "INTEGER", "0", "0",
		"quiet_due", "INTEGER", "0", "0",
		"allowance", "INTEGER", "0", "0",
		"state", "TEXT", "0", "0",
		"claim", "TEXT", "0", "0",
		"claimed_until", "TEXT", "0", "0",
		"warned_at", "TEXT", "0", "0",
		"warned_lease", "TEXT", "0", "0",
		"warned_beat", "INTEGER", "0", "0",
		"warned_last_event", "TEXT", "0", "0",
		"stop_failed", "INTEGER", "0", "0",
		"expired_lease", "TEXT", "0", "0",
		"lost", "INTEGER", "0", "0",
		"start_key", "TEXT", "0", "0",
		"start_tries", "INTEGER", "0", "0",
		"start_due", "INTEGER", "0", "0",
		"ended", "INTEGER", "0", "0",
	}
	if !slices.Equal(columns, want) {
		t.Errorf("the columns are\n%q, want\n%q", columns, want)
	}
}

func TestExistingSessions(t *testing.T) {
	t.Parallel()
	t.Run("of a host's own, named sessions, is left alone", func(t *testing.T) {
		db := openPlain(t, newFile(t))
		mustExec(t, db, "CREATE TABLE sessions (id INTEGER PRIMARY KEY, status TEXT)",
			"INSERT INTO sessions VALUES (1, 'active')")
		if _, _, err := newStore(t, db).Attach(t.Context(), session.Session{RunID: "run-1"}); err != nil {
			t.Error(err)
		}
		if got := queryAll(t, db, "SELECT id, status FROM sessions"); !slices.Equal(got, []string{"1", "active"}) {
			t.Errorf("the host's rows are %q", got)
		}
	})
	t.Run("that is not ours is refused, and left as it is", func(t *testing.T) {
		file := newFile(t)
		db := openPlain(t, file)
		mustExec(t, db, "CREATE TABLE Watchdog_Sessions (run_id TEXT PRIMARY KEY, status TEXT)")
		before := queryAll(t, db, "SELECT type, name, sql FROM sqlite_master")
		_, err := sqlite.Open(t.Context(), file)
		require.ErrorIs(t, err, sqlite.ErrForeignTable)
		require.ErrorContains(t, err, "watchdog_sessions lacks parent, created_at")
		require.Equal(t, before, queryAll(t, db, "SELECT type, name, sql FROM sqlite_master"))
	})
	t.Run("or another table of ours that was dropped is made again", func(t *testing.T) {
		for _, drop := range []string{
			"DROP TABLE events", "DROP TABLE watchdog_sessions", "DROP TABLE watchdog_leases", "DROP TABLE watchdog_outbox",
			"DROP TABLE watchdog_spend", "DROP TABLE watchdog_slices", "DROP TABLE watchdog_lease_ends",
			"DROP TRIGGER watchdog_leases_named", "DROP TRIGGER watchdog_lease_ends_untold",
		} {
			file := newFile(t)
			require.NoError(t, openAt(t, file).Close())
			db := openPlain(t, file, "busy_timeout(10000)")
			triggers := queryAll(t, db, "SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name")
			mustExec(t, db, drop)
			s := openWith(t, file, withOutbox)
			l := beginLease(t, s, "lease-1")
			attach(t, s, "run-1", l.ID, 0)
			_, err := openPlain(t, file).ExecContext(t.Context(), "DELETE FROM watchdog_leases")
			require.ErrorContains(t, err, "active sessions name this lease", drop)
			_, err = s.Take(t.Context(), sliceOf("slice-1", 1, 60))
			require.NoError(t, err, drop)
			require.NoError(t, s.Append(t.Context(), numbered(1)), drop)
			require.Equal(t, []string{"event-1 1"}, claimAll(t, s, time.Hour), drop)
			require.Equal(t, triggers, queryAll(t, db, "SELECT name FROM sqlite_master WHERE type = 'trigger' ORDER BY name"))
		}
	})
	t.Run("of a newer version that this one can use is left as it is", func(t *testing.T) {
		file := newFile(t)
		require.NoError(t, openAt(t, file).Close())
		db := openPlain(t, file, "busy_timeout(10000)")
		mustExec(t, db, "INSERT INTO watchdog_schema VALUES (99, 1)", "ALTER TABLE watchdog_sessions ADD COLUMN newer TEXT")
		attach(t, openAt(t, file), "run-1", "", 0)
		mustExec(t, db, "UPDATE watchdog_schema SET oldest_reader = 98 WHERE version = 99")
		_, err := sqlite.Open(t.Context(), file)
		require.ErrorIs(t, err, sqlite.ErrNewerSchema)
	})
}
