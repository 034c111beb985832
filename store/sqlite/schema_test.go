package sqlite_test

import (
	"database/sql"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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
	require.Equal(t, want, columns)
	require.Equal(t, ownIndexes, indexes(t, db))
	require.Equal(t, []string{"8", "8"}, queryAll(t, db, "SELECT * FROM watchdog_schema"))
	require.Equal(t, "wal", queryAll(t, db, "PRAGMA journal_mode")[0])
}

func TestHostDatabase(t *testing.T) {
	t.Parallel()
	t.Run("keeps its journal mode", func(t *testing.T) {
		db := openPlain(t, newFile(t), "journal_mode(DELETE)")
		s := newStore(t, db)
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		require.Equal(t, "delete", queryAll(t, db, "PRAGMA journal_mode")[0])
	})
	t.Run("with a temporary table of that name is not confused by it", func(t *testing.T) {
		db := openOne(t, newFile(t))
		mustExec(t, db, "CREATE TEMP TABLE events (n)", "CREATE TEMP TABLE watchdog_schema (n)")
		s := newStore(t, db)
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		got := queryAll(t, db, "SELECT id FROM main.events")
		require.Equal(t, []string{"event-1"}, got)
		require.Len(t, read(t, s), 1)
	})
	t.Run("in memory is taken from a host as it is", func(t *testing.T) {
		memory, err := sql.Open("sqlite", ":memory:")
		require.NoError(t, err)
		defer memory.Close()
		memory.SetMaxOpenConns(1)
		s := newStore(t, memory)
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		require.Len(t, read(t, s), 1)
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
	require.NoError(t, openAt(t, file).Append(t.Context(), numbered(1)))
	require.Equal(t, []string{"2"}, queryAll(t, db, "SELECT setting FROM seen"))
}

func TestSynchronousOfHost(t *testing.T) {
	t.Parallel()
	for _, setting := range []string{"OFF", "NORMAL", "FULL", "EXTRA"} {
		t.Run("that is "+setting+" is raised for our transaction and put back", func(t *testing.T) {
			db := openOne(t, newFile(t), "synchronous("+setting+")")
			mustExec(t, db, tableWith(), watchSynchronous)
			s := newStore(t, db)
			before := queryAll(t, db, "PRAGMA synchronous")
			require.NoError(t, s.Append(t.Context(), numbered(1)))
			require.Equal(t, []string{"3"}, queryAll(t, db, "SELECT setting FROM seen"))
			require.Equal(t, before, queryAll(t, db, "PRAGMA synchronous"))
		})
	}
}

// An append does not touch the open transaction of a host.
func TestHostTransaction(t *testing.T) {
	t.Parallel()
	db := openOne(t, newFile(t))
	s := newStore(t, db)
	mustExec(t, db, "CREATE TABLE theirs (n)", "BEGIN", "INSERT INTO theirs VALUES (1)")
	require.Error(t, s.Append(t.Context(), numbered(1)))
	mustExec(t, db, "COMMIT")
	require.Equal(t, []string{"1"}, queryAll(t, db, "SELECT n FROM theirs"))
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

func TestNewSessions(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	openAt(t, file)
	columns := queryAll(t, openPlain(t, file), `SELECT concat_ws(' ', name, type, CASE WHEN "notnull" THEN 'NOT NULL' END,
		CASE WHEN pk THEN 'KEY' END) FROM pragma_table_xinfo('watchdog_sessions') WHERE hidden = 0`)
	want := []string{
		"run_id VARCHAR(255) NOT NULL KEY", "parent VARCHAR(255) NOT NULL", "status VARCHAR(20) NOT NULL",
		"created_at TEXT NOT NULL", "last_event_at TEXT", "threshold INTEGER NOT NULL",
		"started_at TEXT NOT NULL", "host TEXT NOT NULL", "attempt INTEGER NOT NULL",
		"resumes INTEGER NOT NULL", "reason TEXT NOT NULL", "lease TEXT", "activity INTEGER",
		"quiet_since INTEGER", "quiet_due INTEGER", "allowance INTEGER", "state TEXT", "claim TEXT",
		"claimed_until TEXT", "warned_at TEXT", "warned_lease TEXT", "warned_beat INTEGER",
		"warned_last_event TEXT", "stop_failed INTEGER", "expired_lease TEXT", "lost INTEGER",
		"start_key TEXT", "start_tries INTEGER", "start_due INTEGER", "ended INTEGER",
	}
	require.Equal(t, want, columns)
}

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
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		require.Equal(t, []string{"old", "event-1"}, ids(read(t, s)))
		got := queryAll(t, db, "SELECT id, tenant, note FROM events ORDER BY id")
		require.Equal(t, []string{"event-1", "main", "NULL", "old", "other", "kept"}, got)
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
		require.ErrorIs(t, err, sqlite.ErrForeignTable)
		require.ErrorContains(t, err, file)
		for column := range strings.FieldsSeq(names) {
			require.ErrorContains(t, err, column)
		}
	}
	require.Equal(t, before, queryAll(t, db, "SELECT type, name, sql FROM sqlite_master"))
	require.Equal(t, "delete", queryAll(t, db, "PRAGMA journal_mode")[0])
}

// tableWith returns a table with our columns and others.
func tableWith(more ...string) string {
	return "CREATE TABLE events (" + strings.Join(append([]string{
		"id VARCHAR(36) PRIMARY KEY", "aggregate_type TEXT", "aggregate_id VARCHAR(255)", "event_type TEXT",
		"payload TEXT", "timestamp TEXT", "consensus_id TEXT",
	}, more...), ", ") + ")"
}
