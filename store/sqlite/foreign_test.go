package sqlite_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seed62658d38/watchdog/store/sqlite"
)

// foreignTable is a host's events table, with other types, another order and columns of its own.
const foreignTable = `CREATE TABLE Events (
	seq INTEGER PRIMARY KEY AUTOINCREMENT,
	ID CHAR(36) NOT NULL UNIQUE,
	event_type TEXT NOT NULL,
	tenant TEXT NOT NULL DEFAULT 'main',
	aggregate_type VARCHAR(100) NOT NULL,
	aggregate_id VARCHAR(36) NOT NULL COLLATE NOCASE,
	payload JSON NOT NULL,
	"timestamp" TIMESTAMP NOT NULL,
	consensus_id CHAR(36),
	note TEXT,
	kind TEXT GENERATED ALWAYS AS (coalesce(json_extract(payload, '$.kind'), 'none')) VIRTUAL NOT NULL
)`

func TestForeignTable(t *testing.T) {
	t.Parallel()
	t.Run("is used in place and its other columns are left alone", func(t *testing.T) {
		db := hostDatabase(t, newFile(t))
		mustExec(t, db, tableWith("tenant TEXT NOT NULL DEFAULT 'main'", "note TEXT"),
			`INSERT INTO events (id, aggregate_type, aggregate_id, event_type, payload, timestamp, tenant, note)
			 VALUES ('old', 'runtime_control', 'run-1', 'x', '{"a":1}', '2020-01-01 00:00:00', 'other', 'kept')`)
		s := newStore(t, db)
		if err := s.Append(t.Context(), numbered(1)); err != nil {
			t.Fatal(err)
		}
		if got := ids(read(t, s)); !slices.Equal(got, []string{"old", "event-1"}) {
			t.Errorf("read %q", got)
		}
		got := queryAll(t, db, "SELECT id, tenant, note FROM events ORDER BY id")
		if want := []string{"event-1", "main", "NULL", "old", "other", "kept"}; !slices.Equal(got, want) {
			t.Errorf("the rows are %q, want %q", got, want)
		}
	})
	for name, test := range map[string]struct{ table, names string }{
		"that lacks columns": {
			`CREATE TABLE events (id TEXT PRIMARY KEY, event_type TEXT, payload TEXT, ts TEXT)`,
			"aggregate_type aggregate_id timestamp consensus_id",
		},
		"that needs values for other columns": {
			tableWith("tenant TEXT NOT NULL", "seq INT NOT NULL", "note TEXT"), "tenant seq",
		},
		"that needs a value, with NULL as default": {tableWith("tenant TEXT NOT NULL DEFAULT NULL"), "tenant"},
		"whose IDs are not unique":                 {strings.Replace(tableWith(), "PRIMARY KEY", "", 1), "id"},
		"whose IDs are unique only with another column": {
			strings.Replace(tableWith("UNIQUE (id, event_type)"), "PRIMARY KEY", "", 1), "id",
		},
		"whose IDs ignore case": {
			strings.Replace(tableWith(), "PRIMARY KEY", "COLLATE NOCASE PRIMARY KEY", 1), "id",
		},
		"whose IDs are numbers": {strings.Replace(tableWith(), "id VARCHAR(36)", "id INTEGER", 1), "id"},
		"whose run IDs become numbers": {
			strings.Replace(tableWith(), "aggregate_id VARCHAR(255)", "aggregate_id UUID", 1), "aggregate_id",
		},
		"whose times are numbers": {
			strings.Replace(tableWith(), "timestamp TEXT", "timestamp INTEGER", 1), "timestamp",
		},
		"whose payload is computed": {
			strings.Replace(tableWith(), "payload TEXT", "payload TEXT AS ('{}')", 1), "payload",
		},
		"that needs a consensus ID": {
			strings.Replace(tableWith(), "consensus_id TEXT", "consensus_id TEXT NOT NULL DEFAULT ''", 1), "consensus_id",
		},
		"that is a view": {`CREATE VIEW events AS SELECT 1 AS id`, "view"},
		"that has a primary key of two more columns": {
			strings.Replace(tableWith("a INTEGER NOT NULL", "b INTEGER NOT NULL", "PRIMARY KEY (a, b)"),
				"PRIMARY KEY", "UNIQUE", 1),
			"a b",
		},
	} {
		t.Run(name+" is refused, named and left as it is", func(t *testing.T) {
			refusesForeign(t, test.table, test.names)
		})
	}
}

// refusesForeign checks that Open and New fail for a database with this table, name the columns and change nothing.
func refusesForeign(t *testing.T, table, names string) {
	t.Helper()
	file := newFile(t)
	db := openPlain(t, file)
	mustExec(t, db, table)
	before := queryAll(t, db, "SELECT type, name, sql FROM sqlite_master")
	_, err := sqlite.New(t.Context(), db)
	_, openErr := sqlite.Open(t.Context(), file)
	for _, err := range []error{err, openErr} {
		if !errors.Is(err, sqlite.ErrForeignTable) || !errorHas(err, file) {
			t.Fatalf("got %v", err)
		}
		for column := range strings.FieldsSeq(names) {
			if !errorHas(err, column) {
				t.Errorf("%v\ndoes not name %s", err, column)
			}
		}
	}
	if after := queryAll(t, db, "SELECT type, name, sql FROM sqlite_master"); !slices.Equal(before, after) {
		t.Errorf("the schema was %q and is %q", before, after)
	}
	if mode := queryAll(t, db, "PRAGMA journal_mode"); mode[0] != "delete" {
		t.Errorf("the journal mode is %s, which was written to the file", mode)
	}
}

func TestForeignIndexes(t *testing.T) {
	t.Parallel()
	t.Run("are used if they are equivalent", func(t *testing.T) {
		db := openPlain(t, newFile(t))
		mustExec(t, db, tableWith(),
			"CREATE INDEX theirs ON events (aggregate_type, aggregate_id, timestamp, id)",
			"CREATE INDEX types ON events (event_type, timestamp)")
		newStore(t, db)
		if got := indexes(t, db); !slices.Equal(got, []string{"theirs", "types", "watchdog_events_foreign_time", "watchdog_events_parent"}) {
			t.Errorf("the indexes are %q", got)
		}
	})
	t.Run("are not used if they are not equivalent", func(t *testing.T) {
		db := openPlain(t, newFile(t))
		mustExec(t, db, tableWith(),
			"CREATE INDEX partial ON events (aggregate_type, aggregate_id, timestamp) WHERE event_type = 'x'",
			"CREATE INDEX folded ON events (event_type COLLATE NOCASE)",
			"CREATE INDEX swapped ON events (aggregate_id, aggregate_type, timestamp)",
			"CREATE INDEX computed ON events (lower(event_type))")
		newStore(t, db)
		want := []string{
			"computed", "folded", "partial", "swapped", "watchdog_events_aggregate", "watchdog_events_foreign_time",
			"watchdog_events_parent", "watchdog_events_type",
		}
		if got := indexes(t, db); !slices.Equal(got, want) {
			t.Errorf("the indexes are %q, want %q", got, want)
		}
	})
}

// tableWith returns a table with our columns and others.
func tableWith(more ...string) string {
	return "CREATE TABLE events (" + strings.Join(append([]string{
		"id VARCHAR(36) PRIMARY KEY", "aggregate_type TEXT", "aggregate_id VARCHAR(255)", "event_type TEXT",
		"payload TEXT", "timestamp TEXT", "consensus_id TEXT",
	}, more...), ", ") + ")"
}
