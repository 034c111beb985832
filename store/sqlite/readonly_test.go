package sqlite_test

import (
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

func openReadOnly(tb testing.TB, file string) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.OpenReadOnly(tb.Context(), file)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, s.Close()) })
	return s
}

// written makes a database with an event and a session, and returns the store that is open on it.
func written(tb testing.TB, file string) *sqlite.Store {
	tb.Helper()
	s := openAt(tb, file)
	require.NoError(tb, s.Append(tb.Context(), numbered(1)))
	_, _, err := s.Attach(tb.Context(), session.Session{RunID: "run-1", Parent: "parent", Host: "host"})
	require.NoError(tb, err)
	return s
}

// digests returns the digest of each file in the folder.
func digests(tb testing.TB, file string) (all []string) {
	tb.Helper()
	entries, err := os.ReadDir(filepath.Dir(file))
	require.NoError(tb, err)
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(filepath.Dir(file), entry.Name()))
		require.NoError(tb, err)
		all = append(all, fmt.Sprintf("%s %x", entry.Name(), sha256.Sum256(content)))
	}
	return all
}

// withoutIndex leaves out the index of the log, which has no data of its own.
func withoutIndex(digests []string) []string {
	return slices.DeleteFunc(slices.Clone(digests), func(d string) bool { return strings.Contains(d, "-shm ") })
}

// copyOfFiles copies the database and the files beside it, as a killed writer would leave them.
func copyOfFiles(tb testing.TB, file string, without ...string) (copied string) {
	tb.Helper()
	copied = newFile(tb)
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		content, err := os.ReadFile(file + suffix)
		if err == nil && !strings.Contains(strings.Join(without, " ")+" ", suffix+" ") || suffix == "" {
			require.NoError(tb, os.WriteFile(copied+suffix, content, 0o600))
		}
	}
	return copied
}

func TestOpenReadOnly(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(t *testing.T, file string) string{
		"that nobody has open": func(t *testing.T, file string) string {
			t.Helper()
			require.NoError(t, written(t, file).Close())
			return file
		},
		"that somebody writes to": func(t *testing.T, file string) string {
			t.Helper()
			written(t, file)
			return file
		},
		"whose writer was killed": func(t *testing.T, file string) string {
			t.Helper()
			written(t, file)
			return copyOfFiles(t, file)
		},
		"with a rollback journal, of a host": func(t *testing.T, file string) string {
			t.Helper()
			s := newStore(t, openPlain(t, file, "journal_mode(DELETE)"))
			require.NoError(t, s.Append(t.Context(), numbered(1)))
			_, _, err := s.Attach(t.Context(), session.Session{RunID: "run-1"})
			require.NoError(t, err)
			return file
		},
	} {
		t.Run("a file "+name+" is read, and not a byte changes", func(t *testing.T) {
			file := prepare(t, newFile(t))
			before := digests(t, file)
			if name == "that somebody writes to" { // in this process: they share the index of the log
				before = withoutIndex(before)
			}
			s := openReadOnly(t, file)
			for range 2 {
				readsOnly(t, s, func(name string, err error) { require.ErrorIs(t, err, sqlite.ErrReadOnly, name) })
				require.Len(t, read(t, s), 1)
				require.Equal(t, 1, rowOf(t, s, "run-1").Attempt)
			}
			require.NoError(t, s.Close())
			require.Subset(t, digests(t, file), before)
			require.Equal(t, withoutIndex(before), withoutIndex(digests(t, file)))
			require.ErrorIs(t, second(s.Read(t.Context(), "", "")), sqlite.ErrClosed)
		})
	}
	t.Run("what writers commit is read, whenever they come and go", func(t *testing.T) {
		file := newFile(t)
		require.NoError(t, openAt(t, file).Close())
		reader := openReadOnly(t, file)
		for n := int64(1); n <= 6; n += 2 {
			writer := child(t, "open and append", file, fmt.Sprint(n))
			output, err := writer.CombinedOutput()
			require.NoError(t, err, string(output))
			require.Len(t, read(t, reader), int(n))
			live := openAt(t, file)
			require.NoError(t, live.Append(t.Context(), numbered(n+1)))
			require.Len(t, read(t, reader), int(n)+1)
			require.NoError(t, live.Close())
		}
	})
	t.Run("a writer that begins while it is open is seen by a reader that has read", func(t *testing.T) {
		file := newFile(t)
		require.NoError(t, openAt(t, file).Close())
		reader := openReadOnly(t, file)
		require.Empty(t, read(t, reader))
		writer := openAt(t, file)
		for n := range int64(50) {
			require.NoError(t, writer.Append(t.Context(), numbered(n)))
			require.Len(t, read(t, reader), int(n)+1)
		}
	})
	t.Run("a closed store can be closed again", func(t *testing.T) {
		file := newFile(t)
		require.NoError(t, openAt(t, file).Close())
		s := openReadOnly(t, file)
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
	})
}

// SQLite says so where it finds the index of the log half written while others have the file open.
var errTorn = errors.New("attempt to write a readonly database (264)")

func TestTornIndex(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	written(t, file)
	reader := openReadOnly(t, copyOfFiles(t, file))
	for name, times := range map[string]int{"is read again while its writer goes on": 3, "is an error in the end": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			torn := 0
			err := sqlite.ReadCommitted(t.Context(), reader, func() error {
				if torn == times {
					return nil
				}
				torn++
				return errTorn
			})
			if times == 3 {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, errTorn)
			require.Equal(t, 100, torn)
		})
	}
}

func TestOpenReadOnlyRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(t *testing.T, file string) string
		says    []string
	}{
		"a file that is not there": {
			func(_ *testing.T, file string) string { return file },
			[]string{"there is no file", "none is created"},
		},
		"a folder": {
			func(_ *testing.T, file string) string { return filepath.Dir(file) },
			[]string{"is a directory"},
		},
		"a URI": {
			func(*testing.T, string) string { return "file:events.db" },
			[]string{"use a plain path"},
		},
		"an empty file": {
			func(t *testing.T, file string) string {
				t.Helper()
				require.NoError(t, os.WriteFile(file, nil, 0o600))
				return file
			},
			[]string{"has no table of events", "none is created"},
		},
		"what is no database": {
			func(t *testing.T, file string) string {
				t.Helper()
				require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("no database ", 100)), 0o600))
				return file
			},
			[]string{"file is not a database"},
		},
		"a log without its index": {
			func(t *testing.T, file string) string {
				t.Helper()
				written(t, file)
				return copyOfFiles(t, file, "-shm ")
			},
			[]string{"the log (-wal) has no index (-shm)", "open it once with a program that writes"},
		},
	} {
		t.Run(name+", and creates nothing", func(t *testing.T) {
			file := test.prepare(t, newFile(t))
			before := []string(nil)
			if !strings.HasPrefix(file, "file:") {
				before = digests(t, filepath.Join(file, "..", "any"))
			}
			_, err := sqlite.OpenReadOnly(t.Context(), file)
			errorSays(t, err, test.says...)
			if before != nil {
				require.Equal(t, before, digests(t, filepath.Join(file, "..", "any")))
			}
		})
	}
	t.Run("a newer schema, as Open does", func(t *testing.T) {
		file := newFile(t)
		mustExec(t, openPlain(t, file), "CREATE TABLE watchdog_schema (version INTEGER PRIMARY KEY, oldest_reader INTEGER)",
			"INSERT INTO watchdog_schema VALUES (99, 99)")
		require.ErrorIs(t, second(sqlite.OpenReadOnly(t.Context(), file)), sqlite.ErrNewerSchema)
	})
	t.Run("a foreign table, as Open does", func(t *testing.T) {
		file := newFile(t)
		mustExec(t, openPlain(t, file), "CREATE TABLE events (n)")
		require.ErrorIs(t, second(sqlite.OpenReadOnly(t.Context(), file)), sqlite.ErrForeignTable)
	})
	t.Run("of an older schema only what is not there", func(t *testing.T) {
		file := newFile(t)
		db := openPlain(t, file)
		mustExec(t, db, tableWith())
		s := openReadOnly(t, file)
		require.Empty(t, read(t, s))
		layers, err := s.Layers(t.Context(), "run-1")
		require.NoError(t, err)
		require.Empty(t, layers)
		_, err = s.List(t.Context(), session.ListQuery{Limit: 1})
		require.ErrorContains(t, err, "the schema is older than this program: open the database once with a program that writes")
		require.Equal(t, []string{"1"}, queryAll(t, db, "SELECT count(*) FROM sqlite_master WHERE type = 'table'"))
	})
}

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
		"whose IDs are not unique":                 {changed("PRIMARY KEY", ""), "id"},
		"whose IDs are unique only with another column": {
			changed("PRIMARY KEY", "", "UNIQUE (id, event_type)"), "id",
		},
		"whose IDs ignore case":        {changed("PRIMARY KEY", "COLLATE NOCASE PRIMARY KEY"), "id"},
		"whose IDs are numbers":        {changed("id VARCHAR(36)", "id INTEGER"), "id"},
		"whose run IDs become numbers": {changed("aggregate_id VARCHAR(255)", "aggregate_id UUID"), "aggregate_id"},
		"whose times are numbers":      {changed("timestamp TEXT", "timestamp INTEGER"), "timestamp"},
		"whose payload is computed":    {changed("payload TEXT", "payload TEXT AS ('{}')"), "payload"},
		"that needs a consensus ID": {
			changed("consensus_id TEXT", "consensus_id TEXT NOT NULL DEFAULT ''"), "consensus_id",
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

// changed returns tableWith with one text in the place of another.
func changed(old, by string, more ...string) string {
	return strings.Replace(tableWith(more...), old, by, 1)
}

// tableWith returns a table with our columns and others.
func tableWith(more ...string) string {
	return "CREATE TABLE events (" + strings.Join(append([]string{
		"id VARCHAR(36) PRIMARY KEY", "aggregate_type TEXT", "aggregate_id VARCHAR(255)", "event_type TEXT",
		"payload TEXT", "timestamp TEXT", "consensus_id TEXT",
	}, more...), ", ") + ")"
}
