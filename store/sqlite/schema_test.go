package sqlite_test

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed62658d38/watchdog/store/sqlite"
)

func TestNewSchema(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	openAt(t, file)
	db := openPlain(t, file)
	columns := queryAll(t, db, "SELECT name, type, \"notnull\", pk FROM pragma_table_info('events')")
	want := []string{
		"id", "VARCHAR(36)", "1", "1",
		"aggregate_type", "VARCHAR(100)", "1", "0",
		"aggregate_id", "VARCHAR(255)", "1", "0",
		"event_type", "VARCHAR(200)", "1", "0",
		"payload", "JSON", "1", "0",
		"timestamp", "TEXT", "1", "0",
		"consensus_id", "VARCHAR(36)", "0", "0",
	}
	if !slices.Equal(columns, want) {
		t.Errorf("the columns are\n%q, want\n%q", columns, want)
	}
	if got := indexes(t, db); !slices.Equal(got, ownIndexes) {
		t.Errorf("the indexes are %q", got)
	}
	if got := queryAll(t, db, "SELECT * FROM watchdog_schema"); !slices.Equal(got, []string{"1", "1"}) {
		t.Errorf("the version and its oldest reader are %q", got)
	}
	if got := queryAll(t, db, "PRAGMA journal_mode"); got[0] != "wal" {
		t.Errorf("the journal mode is %s", got)
	}
}

func TestReadUsesIndex(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	openAt(t, file)
	plan := queryAll(t, openPlain(t, file), `EXPLAIN QUERY PLAN SELECT id FROM main.events
		WHERE aggregate_type = 'a' COLLATE BINARY AND aggregate_id = 'b' COLLATE BINARY`)
	want := "watchdog_events_aggregate (aggregate_type=? AND aggregate_id=?)"
	if text := strings.Join(plan, " "); !strings.Contains(text, want) {
		t.Errorf("the plan is %s", text)
	}
}

func TestExistingDatabase(t *testing.T) {
	t.Parallel()
	t.Run("of a newer version is refused and left as it is", func(t *testing.T) {
		file := newFile(t)
		db := openPlain(t, file)
		mustExec(t, db, "CREATE TABLE watchdog_schema (version INTEGER PRIMARY KEY, oldest_reader INTEGER)",
			"INSERT INTO watchdog_schema VALUES (1, 1), (99, 99)")
		before := queryAll(t, db, "SELECT name FROM sqlite_master")
		_, err := sqlite.Open(t.Context(), file)
		if !errors.Is(err, sqlite.ErrNewerSchema) || !errorHas(err, "99", file) {
			t.Errorf("Open returned %v", err)
		}
		if after := queryAll(t, db, "SELECT name FROM sqlite_master"); !slices.Equal(after, before) {
			t.Errorf("the tables are %q, they were %q", after, before)
		}
	})
}

func TestHostDatabase(t *testing.T) {
	t.Parallel()
	t.Run("keeps its journal mode", func(t *testing.T) {
		db := openPlain(t, newFile(t), "journal_mode(DELETE)")
		s := newStore(t, db)
		if err := s.Append(t.Context(), numbered(1)); err != nil {
			t.Fatal(err)
		}
		if got := queryAll(t, db, "PRAGMA journal_mode"); got[0] != "delete" {
			t.Errorf("the journal mode is %s", got)
		}
	})
	t.Run("with a temporary table of that name is not confused by it", func(t *testing.T) {
		db := openPlain(t, newFile(t))
		db.SetMaxOpenConns(1)
		mustExec(t, db, "CREATE TEMP TABLE events (n)", "CREATE TEMP TABLE watchdog_schema (n)")
		s := newStore(t, db)
		if err := s.Append(t.Context(), numbered(1)); err != nil {
			t.Fatal(err)
		}
		got := queryAll(t, db, "SELECT id FROM main.events")
		if !slices.Equal(got, []string{"event-1"}) || len(read(t, s)) != 1 {
			t.Errorf("main.events has %q", got)
		}
	})
	t.Run("in memory is taken from a host as it is", func(t *testing.T) {
		memory, err := sql.Open("sqlite", ":memory:")
		if err != nil {
			t.Fatal(err)
		}
		defer memory.Close()
		memory.SetMaxOpenConns(1)
		s := newStore(t, memory)
		if err := s.Append(t.Context(), numbered(1)); err != nil || len(read(t, s)) != 1 {
			t.Error(err)
		}
	})
}

// watchSynchronous stores the synchronous setting at each insert.
const watchSynchronous = `CREATE TABLE seen (setting);
	CREATE TRIGGER look AFTER INSERT ON events BEGIN INSERT INTO seen SELECT synchronous FROM pragma_synchronous; END`

// A file that Open opened is written with synchronous=FULL.
func TestSynchronousOfFile(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	db := openPlain(t, file)
	mustExec(t, db, tableWith(), watchSynchronous)
	if err := openAt(t, file).Append(t.Context(), numbered(1)); err != nil {
		t.Fatal(err)
	}
	if seen := queryAll(t, db, "SELECT setting FROM seen"); !slices.Equal(seen, []string{"2"}) {
		t.Errorf("during the transaction synchronous was %s, want 2, FULL", seen)
	}
}

func TestSynchronousOfHost(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"OFF", "NORMAL", "FULL", "EXTRA"} {
		t.Run("that is "+setting+" is raised for our transaction and put back", func(t *testing.T) {
			db := openPlain(t, newFile(t), "synchronous("+setting+")")
			db.SetMaxOpenConns(1)
			mustExec(t, db, tableWith(), watchSynchronous)
			s := newStore(t, db)
			before := queryAll(t, db, "PRAGMA synchronous")
			if err := s.Append(t.Context(), numbered(1)); err != nil {
				t.Fatal(err)
			}
			if seen := queryAll(t, db, "SELECT setting FROM seen"); !slices.Equal(seen, []string{"3"}) {
				t.Errorf("during the transaction synchronous was %s, want 3, EXTRA", seen)
			}
			if after := queryAll(t, db, "PRAGMA synchronous"); !slices.Equal(after, before) {
				t.Errorf("synchronous was %s and is %s", before, after)
			}
		})
	}
}

// An append does not touch the open transaction of a host.
func TestHostTransaction(t *testing.T) {
	t.Parallel()
	db := openPlain(t, newFile(t))
	db.SetMaxOpenConns(1)
	s := newStore(t, db)
	mustExec(t, db, "CREATE TABLE theirs (n)", "BEGIN", "INSERT INTO theirs VALUES (1)")
	if err := s.Append(t.Context(), numbered(1)); err == nil {
		t.Error("Append on a connection with an open transaction returned nil")
	}
	mustExec(t, db, "COMMIT")
	if got := queryAll(t, db, "SELECT n FROM theirs"); !slices.Equal(got, []string{"1"}) {
		t.Errorf("the host's row: %q", got)
	}
}

var ownIndexes = []string{
	"watchdog_events_aggregate", "watchdog_events_foreign_time", "watchdog_events_parent", "watchdog_events_type",
}

// indexes lists the indexes of the events table that a statement created.
func indexes(t *testing.T, db *sql.DB) []string {
	t.Helper()
	return queryAll(t, db, `SELECT name FROM sqlite_master
		WHERE type = 'index' AND sql IS NOT NULL AND lower(tbl_name) = 'events' ORDER BY name`)
}
