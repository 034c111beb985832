package sqlite_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// version1 creates a database with the schema of the first version.
var version1 = []string{
	`CREATE TABLE events (
		id VARCHAR(36) NOT NULL PRIMARY KEY, aggregate_type VARCHAR(100) NOT NULL,
		aggregate_id VARCHAR(255) NOT NULL, event_type VARCHAR(200) NOT NULL,
		payload JSON NOT NULL, timestamp TEXT NOT NULL, consensus_id VARCHAR(36))`,
	`CREATE INDEX watchdog_events_aggregate ON events (aggregate_type, aggregate_id, timestamp)`,
	`CREATE INDEX watchdog_events_type ON events (event_type)`,
	`CREATE TABLE watchdog_schema (version INTEGER PRIMARY KEY)`,
	`INSERT INTO watchdog_schema VALUES (1)`,
	`INSERT INTO events VALUES ('old', 'runtime_control', 'run-1', 'runtime.watchdog.cancel',
		'{"reason":"old","event_version":1}', '2026-01-02 03:04:05.000006', NULL)`,
}

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
		"ended", "INTEGER", "0", "0",
		"lease", "TEXT", "0", "0",
		"leased", "INTEGER", "0", "0",
		"activity", "INTEGER", "0", "0",
		"quiet_since", "INTEGER", "0", "0",
		"quiet_due", "INTEGER", "0", "0",
		"own_threshold", "INTEGER", "0", "0",
		"state", "TEXT", "0", "0",
		"claim", "TEXT", "0", "0",
		"claimed_until", "TEXT", "0", "0",
		"warned_at", "TEXT", "0", "0",
		"warned_attempt", "INTEGER", "0", "0",
		"warned_lease", "TEXT", "0", "0",
		"warned_beat", "INTEGER", "0", "0",
		"warned_last_event", "TEXT", "0", "0",
		"stop_failed", "INTEGER", "0", "0",
		"allowance", "INTEGER", "0", "0",
		"allowed", "INTEGER", "0", "0",
		"expired_lease", "TEXT", "0", "0",
		"start_key", "TEXT", "0", "0",
		"start_attempt", "INTEGER", "0", "0",
		"start_tries", "INTEGER", "0", "0",
		"start_due", "INTEGER", "0", "0",
	}
	if !slices.Equal(columns, want) {
		t.Errorf("the columns are\n%q, want\n%q", columns, want)
	}
}

func TestVersion1(t *testing.T) {
	t.Parallel()
	t.Run("gets sessions and keeps its events", func(t *testing.T) {
		file := newFile(t)
		db := openPlain(t, file)
		mustExec(t, db, version1...)
		s := openAt(t, file)
		if _, _, err := s.Attach(t.Context(), session.Session{RunID: "run-1"}); err != nil {
			t.Error(err)
		}
		if got := ids(read(t, s)); !slices.Equal(got, []string{"old"}) {
			t.Errorf("the events are %q", got)
		}
		if got := queryAll(t, db, "SELECT version FROM watchdog_schema"); !slices.Equal(got, versions(1)) {
			t.Errorf("the versions are %q", got)
		}
	})
	t.Run("with a table of that name that is not ours is refused, and left as it is", func(t *testing.T) {
		file := newFile(t)
		db := openPlain(t, file)
		mustExec(t, db, version1...)
		mustExec(t, db, "CREATE TABLE Watchdog_Sessions (run_id TEXT PRIMARY KEY, status TEXT)")
		before := queryAll(t, db, "SELECT type, name, sql FROM sqlite_master")
		_, err := sqlite.Open(t.Context(), file)
		if !errors.Is(err, sqlite.ErrForeignTable) || !errorHas(err, "watchdog_sessions has no column parent") {
			t.Errorf("Open returned %v", err)
		}
		if after := queryAll(t, db, "SELECT type, name, sql FROM sqlite_master"); !slices.Equal(before, after) {
			t.Errorf("the schema was %q and is %q", before, after)
		}
	})
}

// renewLeaseBefore is how a program renews a lease that knows only vouched.
const renewLeaseBefore = `UPDATE watchdog_leases SET beat = beat + 1, clock = max(clock, ?1), vouched = max(vouched, ?1)`

// Leases of programs that know only vouched get the columns for rows that are behind, and the programs go on.
func TestLeasesBeforeBehind(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s, db := openAt(t, file), openPlain(t, file, "busy_timeout(10000)")
	beginLease(t, s, "lease-1")
	attach(t, s, "run-1", "lease-1", 0)
	freshen(t, s, "lease-1", session.Freshness{RunID: "run-1", Quiet: true})
	require.NoError(t, s.Close())
	mustExec(t, db, "ALTER TABLE watchdog_leases DROP COLUMN covered", "ALTER TABLE watchdog_leases DROP COLUMN behind")
	reader := openReadOnly(t, file)
	events, err := reader.Read(t.Context(), "runtime_control", "run-1")
	require.NoError(t, err)
	assert.Empty(t, events)

	s = openAt(t, file)
	_, err = db.ExecContext(t.Context(), renewLeaseBefore, int64(time.Hour))
	require.NoError(t, err)
	page, err := s.Stalled(t.Context(), session.Query{Threshold: time.Minute, Limit: 10})
	require.NoError(t, err)
	require.Len(t, page.Sessions, 1)
	assert.Equal(t, time.Hour, page.Sessions[0].Silence)
	assert.False(t, page.Sessions[0].Behind)
	all, err := s.ObserveLeases(t.Context(), nil)
	require.NoError(t, err)
	assert.Zero(t, all[0].Covered)
	assert.Nil(t, all[0].Behind)
	assert.Equal(t, versions(1), queryAll(t, db, "SELECT version FROM watchdog_schema"))
}

func TestExistingSessions(t *testing.T) {
	t.Parallel()
	t.Run("that was dropped is made again", func(t *testing.T) {
		file := newFile(t)
		if err := openAt(t, file).Close(); err != nil {
			t.Fatal(err)
		}
		mustExec(t, openPlain(t, file), "DROP TABLE watchdog_sessions")
		if _, _, err := openAt(t, file).Attach(t.Context(), session.Session{RunID: "run-1"}); err != nil {
			t.Error(err)
		}
	})
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
}

// version2 and version3 are what the versions before made of that: the third of an older build has no leases.
var (
	version2 = []string{
		`CREATE TABLE watchdog_sessions (
			run_id VARCHAR(255) NOT NULL PRIMARY KEY, parent VARCHAR(255) NOT NULL DEFAULT '', status VARCHAR(20) NOT NULL,
			created_at TEXT NOT NULL, last_event_at TEXT, threshold INTEGER NOT NULL DEFAULT 0, started_at TEXT NOT NULL,
			host TEXT NOT NULL DEFAULT '', attempt INTEGER NOT NULL, resumes INTEGER NOT NULL DEFAULT 0,
			reason TEXT NOT NULL DEFAULT '', ended INTEGER,
			created INTEGER GENERATED ALWAYS AS (CAST(strftime('%s', created_at) AS INTEGER) * 1000000) VIRTUAL,
			silent INTEGER GENERATED ALWAYS AS (
				CAST(strftime('%s', coalesce(last_event_at, created_at)) AS INTEGER) * 1000000) VIRTUAL,
			due INTEGER GENERATED ALWAYS AS (silent + threshold / 1000) VIRTUAL) WITHOUT ROWID`,
		`CREATE INDEX watchdog_sessions_silent ON watchdog_sessions (silent, run_id, created)
			WHERE status = 'active' AND threshold = 0`,
		`CREATE INDEX watchdog_sessions_due ON watchdog_sessions (due, run_id, created)
			WHERE status = 'active' AND threshold > 0`,
		`CREATE INDEX watchdog_sessions_unreadable ON watchdog_sessions (run_id)
			WHERE status = 'active' AND (created IS NULL OR silent IS NULL OR threshold < 0)`,
		`CREATE INDEX watchdog_sessions_ended ON watchdog_sessions (ended) WHERE ended IS NOT NULL`,
		`INSERT INTO watchdog_schema VALUES (2)`,
		`INSERT INTO watchdog_sessions (run_id, status, created_at, threshold, started_at, host, attempt)
			VALUES ('run-2', 'active', '2026-01-02 03:04:05.000000', 60000000000, '2026-01-02 03:04:05.000000', 'old', 3)`,
	}
	version3 = []string{
		`CREATE INDEX watchdog_events_foreign_time ON events (aggregate_type, aggregate_id) WHERE FALSE`,
		`INSERT INTO watchdog_schema VALUES (3)`,
	}
)

func TestMigration(t *testing.T) {
	t.Parallel()
	for name, before := range map[string][]string{
		"version 2": slices.Concat(version1, version2), "version 3 without leases": slices.Concat(version1, version2, version3),
	} {
		t.Run("from "+name+" keeps the rows, which can come into a lease", func(t *testing.T) {
			file := newFile(t)
			db := openPlain(t, file, "busy_timeout(10000)")
			mustExec(t, db, before...)
			s := openAt(t, file)
			at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			old := session.Session{
				RunID: "run-2", Status: session.Active, CreatedAt: at, Threshold: time.Minute, StartedAt: at, Host: "old", Attempt: 3,
			}
			require.Equal(t, old, rowOf(t, s, "run-2"))
			page, err := s.Stalled(t.Context(), benched)
			require.NoError(t, err)
			require.Equal(t, []session.Session{old}, page.Sessions)
			beginLease(t, s, "lease-1")
			_, err = s.Freshen(t.Context(), "lease-1", []session.Freshness{{RunID: "run-2", Attempt: 3, Activity: 5}})
			require.NoError(t, err)
			old.Lease, old.Activity = "lease-1", 5
			assert.Equal(t, old, rowOf(t, s, "run-2"))
			assert.Equal(t, append([]string{"1", "NULL", "2", "NULL"}, versions(3, "3")...), queryAll(t, db, "SELECT * FROM watchdog_schema"))
			fresh := newFile(t)
			openAt(t, fresh)
			for _, kind := range []string{"index", "table", "trigger"} {
				names := `SELECT name FROM sqlite_master WHERE type = '` + kind + `' ORDER BY name`
				assert.Equal(t, queryAll(t, openPlain(t, fresh), names), queryAll(t, db, names))
			}
		})
	}
	t.Run("is done again for what a host has dropped", func(t *testing.T) {
		for _, drop := range []string{
			"DROP TABLE watchdog_leases", "DROP TABLE watchdog_outbox", "DROP TABLE watchdog_spend", "DROP TABLE watchdog_slices", "ALTER TABLE watchdog_schema DROP COLUMN oldest_reader",
			"ALTER TABLE watchdog_outbox DROP COLUMN tries",
			"ALTER TABLE watchdog_sessions DROP COLUMN stop_failed", "DROP TRIGGER watchdog_leases_named",
			"DROP TABLE watchdog_lease_ends", "DROP TRIGGER watchdog_lease_ends_untold",
			"DROP INDEX watchdog_sessions_start; ALTER TABLE watchdog_sessions DROP COLUMN start_due",
		} {
			file := newFile(t)
			require.NoError(t, openAt(t, file).Close())
			db := openPlain(t, file, "busy_timeout(10000)")
			mustExec(t, db, drop)
			s := openAt(t, file)
			l := beginLease(t, s, "lease-1")
			attach(t, s, "run-1", l.ID, 0)
			_, err := openPlain(t, file).ExecContext(t.Context(), "DELETE FROM watchdog_leases")
			require.ErrorContains(t, err, "active sessions name this lease", drop)
			assert.Equal(t, []string{"3"}, queryAll(t, db, "SELECT oldest_reader FROM watchdog_schema WHERE version = 7"), drop)
			_, err = s.Take(t.Context(), sliceOf("slice-1", 1, 60))
			require.NoError(t, err, drop)
			require.NoError(t, s.Close())
			s = openWith(t, file, withOutbox)
			require.NoError(t, s.Append(t.Context(), numbered(1)), drop)
			assert.Equal(t, []string{"event-1 1"}, claimAll(t, s, time.Hour), drop)
		}
	})
	t.Run("from version 4 keeps what is in the outbox, and has it delivered", func(t *testing.T) {
		file := newFile(t)
		require.NoError(t, openAt(t, file).Close())
		db := openPlain(t, file, "busy_timeout(10000)")
		mustExec(t, db, "DROP TABLE watchdog_outbox", "DELETE FROM watchdog_schema WHERE version = 5",
			`CREATE TABLE watchdog_outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, event_id VARCHAR(36) NOT NULL,
				aggregate_type VARCHAR(100) NOT NULL, aggregate_id VARCHAR(255) NOT NULL, event_type VARCHAR(200) NOT NULL,
				created_at TEXT NOT NULL)`,
			putBefore("old-1"), putBefore("old-2"), putBefore("old-1"))
		s := openWith(t, file, withOutbox)
		mustExec(t, db, putBefore("old-3")) // a process of version 4 that goes on
		assert.Equal(t, []string{"old-1 1", "old-2 1", "old-1 1", "old-3 1"}, claimAll(t, s, time.Hour))
		assert.Equal(t, versions(4, "3"), queryAll(t, db, "SELECT * FROM watchdog_schema WHERE version > 3"))
		fresh := newFile(t)
		openAt(t, fresh)
		const columns = "SELECT * FROM pragma_table_info('watchdog_outbox')"
		assert.Equal(t, queryAll(t, openPlain(t, fresh), columns), queryAll(t, db, columns))
		const indexes = "SELECT name, sql FROM sqlite_master WHERE type = 'index' ORDER BY name"
		assert.Equal(t, queryAll(t, openPlain(t, fresh), indexes), queryAll(t, db, indexes))
	})
	t.Run("refuses a table of leases that is not ours", func(t *testing.T) {
		file := newFile(t)
		mustExec(t, openPlain(t, file), "CREATE TABLE watchdog_leases (id TEXT, tenant TEXT)")
		_, err := sqlite.Open(t.Context(), file)
		require.ErrorIs(t, err, sqlite.ErrForeignTable)
		require.ErrorContains(t, err, "watchdog_leases has no column host")
	})
	t.Run("is not done for a newer version that this one can use", func(t *testing.T) {
		file := newFile(t)
		require.NoError(t, openAt(t, file).Close())
		db := openPlain(t, file, "busy_timeout(10000)")
		mustExec(t, db, "INSERT INTO watchdog_schema VALUES (99, 3)", "ALTER TABLE watchdog_sessions ADD COLUMN newer TEXT")
		attach(t, openAt(t, file), "run-1", "", 0)
		for _, oldest := range []string{"98", "NULL"} {
			mustExec(t, db, "UPDATE watchdog_schema SET oldest_reader = "+oldest+" WHERE version = 99")
			_, err := sqlite.Open(t.Context(), file)
			require.ErrorIs(t, err, sqlite.ErrNewerSchema, oldest)
		}
	})
}
