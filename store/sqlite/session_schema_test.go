package sqlite_test

import (
	"errors"
	"slices"
	"testing"

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
	}
	if !slices.Equal(columns, want) {
		t.Errorf("the columns are\n%q, want\n%q", columns, want)
	}
}

func TestVersion1(t *testing.T) {
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
		if got := queryAll(t, db, "SELECT version FROM watchdog_schema"); !slices.Equal(got, []string{"1", "2", "3"}) {
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

func TestExistingSessions(t *testing.T) {
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
