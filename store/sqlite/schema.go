package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog/store/internal/storeflow"
)

// schema has the tables. The epoch of a lease is the time at which its clock was at zero, in nanoseconds since 1970.
//
// Select and Layers work without the first two indexes, but read more rows. These hold few: the layers of runs, and the
// events whose times another program wrote in a form of its own.
func schema() *storeflow.Schema {
	return &storeflow.Schema{
		Prefix: "main.",
		Columns: map[string][]storeflow.Column{
			"watchdog_sessions": numberedTimes,
			"watchdog_leases": {
				{Name: "epoch", Is: "INTEGER GENERATED ALWAYS AS ((" + microseconds("renewed_at") + ") * 1000 - clock) VIRTUAL"},
			},
		},
		Types: strings.NewReplacer("{bytes}", "", "{text}", "TEXT", "{integer}", "INTEGER", "{time}", "TEXT",
			"{flag}", "INTEGER", "{JSON}", "TEXT", "{lease}", "TEXT", "{cascade}", "",
			"{payload}", "JSON", "{due}", "INTEGER"),
		Options: map[string]string{
			"watchdog_sessions": " WITHOUT ROWID", "watchdog_lease_ends": " WITHOUT ROWID",
		},
		Index: `CREATE INDEX IF NOT EXISTS main.%s ON %s (%s)`,
		Indexes: []storeflow.Index{
			{"watchdog_events_parent", "events", parentOf, isLayer},
			{"watchdog_events_foreign_time", "events", "aggregate_type, aggregate_id", isForeignTime},
			{"watchdog_sessions_silent", "watchdog_sessions", "silent, run_id, created", hasDefaultThreshold},
			{"watchdog_sessions_due", "watchdog_sessions", "due, run_id, created", hasOwnThreshold},
			{"watchdog_sessions_unreadable", "watchdog_sessions", "run_id", isUnreadable},
			{"watchdog_sessions_lease", "watchdog_sessions", "lease, run_id", isLeased},
			{"watchdog_sessions_quiet", "watchdog_sessions", "lease, quiet_since, run_id, created", isQuiet},
			{"watchdog_sessions_quiet_due", "watchdog_sessions", "lease, quiet_due, run_id, created", isQuietDue},
			{"watchdog_sessions_created", "watchdog_sessions", "created, run_id"},
			{"watchdog_sessions_live", "watchdog_sessions", "created, run_id", isLive},
			{"watchdog_sessions_parent", "watchdog_sessions", "parent, created, run_id", hasParent},
			{"watchdog_sessions_host", "watchdog_sessions", "host, created, run_id"},
			{"watchdog_sessions_start", "watchdog_sessions", "start_due, run_id", isToStart},
		},
		Foreign: ErrForeignTable,
	}
}

// migrate brings the schema to the newest version. Several processes may migrate at once: each does it under the write
// lock. It writes nothing to a database that cannot be used. The logger gets what a version before left.
func (s *Store) migrate(ctx context.Context, log *slog.Logger) error {
	var found []storeflow.Leftover
	err := s.migrated(ctx, &found)
	for _, left := range found {
		cmp.Or(log, slog.Default()).Warn("an older version left rows that nothing reads any more",
			"database", s.file, "rows", left.Rows, "read", left.Read, "drop", left.Drop)
	}
	return err
}

func (s *Store) migrated(ctx context.Context, found *[]storeflow.Leftover) error {
	t, err := s.begin(ctx, nil)
	if err != nil {
		return err
	}
	defer t.end()
	return storeflow.InOrder(
		func() error { return schema().Migrate(t) },
		func() error { return t.Run(refuseDelete) }, // again, if a host has dropped it
		func() error { return t.Run(dropLeaseEnds) },
		// It changes no row, but SQLite needs the right to write: one that is read-only is found before an event is lost.
		func() error { return t.Run(`UPDATE main.watchdog_schema SET version = version WHERE version < 0`) },
		func() error { *found = schema().Leftovers(t); return nil },
		t.commit)
}

// Value implements [storeflow.Database].
func (t *transaction) Value(statement string, arguments []any, into ...any) error {
	_, err := lookUp(t, statement, arguments, into...)
	return err
}

// useWAL allows reads while a transaction is being written. It runs after the migration, because it writes to the file.
// SQLite never waits for this pragma, whatever the busy timeout, and another process may be setting it as well.
func (s *Store) useWAL(ctx context.Context) error {
	var mode string
	err := s.retryWhileLocked(ctx, func() error {
		return s.db.QueryRowContext(ctx, "PRAGMA main.journal_mode = WAL").Scan(&mode)
	})
	if err == nil && !strings.EqualFold(mode, "wal") {
		err = fmt.Errorf("the file system does not allow WAL mode (journal mode stays %s): "+
			"use a local disk, or open the database with sql.Open and pass it to New", mode)
	}
	return err
}

// findFile looks up the file of a host's database. It returns its path, empty for a database in memory.
func (s *Store) findFile(ctx context.Context) (path string, err error) {
	err = s.retryWhileLocked(ctx, func() error {
		return s.db.QueryRowContext(ctx, `
			SELECT coalesce(file, '') FROM pragma_database_list WHERE name = 'main'`).Scan(&path)
	})
	if path != "" {
		s.file = path
	}
	return path, err
}

// Times of watchdog_sessions as numbers, in microseconds since 1970. Those that are generated can be indexed with a
// threshold added. They are NULL for a text that is not a timestamp of ours. Such rows have an index of their own,
// because no comparison would find them.
//
// Rejected: text in the indexes. It needs no conversion, but a session with a threshold of its own must be found by the
// time when it exceeds the threshold, and SQLite adds texts only to the millisecond. Rejected as well: ordinary columns
// that every write sets, because other writers of the table do not know them. The indexes contain created, because
// reading it from there costs a third less than computing it for each row found.
var numberedTimes = []storeflow.Column{
	{Name: "ended", Is: "INTEGER"}, // when the row was made to say that the run ended
	{Name: "created", Is: "INTEGER GENERATED ALWAYS AS (" + microseconds("created_at") + ") VIRTUAL"},
	{Name: "silent", Is: "INTEGER GENERATED ALWAYS AS (" + microseconds("coalesce(last_event_at, created_at)") +
		") VIRTUAL"},
	{Name: "due", Is: "INTEGER GENERATED ALWAYS AS (silent + threshold / 1000) VIRTUAL"},
}

// microseconds is the SQL that converts a timestamp of ours to a number. SQLite reads February 31st as a day in
// March, so the expression compares with the text that SQLite makes of the time.
func microseconds(text string) string {
	return strings.NewReplacer("TEXT", text, "FORM", timeForm).Replace(`CASE
			WHEN TEXT NOT GLOB 'FORM' THEN NULL
			WHEN strftime('%Y-%m-%d %H:%M:%S', substr(TEXT, 1, 19)) = substr(TEXT, 1, 19)
			THEN CAST(strftime('%s', substr(TEXT, 1, 19)) AS INTEGER) * 1000000 + CAST(substr(TEXT, 21) AS INTEGER) END`)
}

// The conditions of the partial indexes. A query must repeat one word for word. No unreadable row is stalled.
const (
	hasDefaultThreshold = `status = 'active' AND lease IS NULL AND threshold = 0`
	hasOwnThreshold     = `status = 'active' AND lease IS NULL AND threshold > 0`
	isUnreadable        = `status = 'active' AND (created IS NULL OR silent IS NULL OR threshold < 0)`

	isLeased   = `status = 'active' AND lease IS NOT NULL`
	isReadable = `created IS NOT NULL AND silent IS NOT NULL AND threshold >= 0`
	isQuiet    = `quiet_since IS NOT NULL AND ` + isLeased + ` AND ` + isReadable
	isQuietDue = `quiet_due IS NOT NULL AND ` + isLeased + ` AND ` + isReadable
	isLive     = `status = 'active'`
	hasParent  = `parent <> ''`
)

// refuseDelete has every program fail that deletes a lease which sessions name: nobody would observe the lease any
// more, and if its process is dead the sessions would stay active for ever. SQLite would check a foreign key only for
// programs that ask for it. The store deletes the leases alone that no session names.
const refuseDelete = `CREATE TRIGGER IF NOT EXISTS main.watchdog_leases_named BEFORE DELETE ON watchdog_leases
	WHEN EXISTS (SELECT 1 FROM watchdog_sessions WHERE ` + isLeased + ` AND lease = old.id)
	BEGIN
		SELECT RAISE(ABORT, 'active sessions name this lease: a sweeper finds out whether its process is dead');
	END`

func (t *transaction) Events() (exists bool, columns []storeflow.EventColumn, err error) {
	var kind string
	err = t.Value(`SELECT coalesce(max(type), '') FROM main.sqlite_master
		WHERE lower(name) = 'events' AND type IN ('table', 'view')`, nil, &kind)
	switch {
	case err != nil || kind == "":
		return false, nil, err
	case kind != "table":
		return false, nil, fmt.Errorf("%w (events is a %s)", ErrForeignTable, kind)
	}
	columns, err = t.columns()
	return true, columns, err
}

// columns describes the columns of the events table. Names are in lower case, because SQLite ignores their case. It
// numbers a column by itself that is the whole primary key and an INTEGER.
func (t *transaction) columns() ([]storeflow.EventColumn, error) {
	return rowsOf(t, func(rows *sql.Rows) (c storeflow.EventColumn, err error) {
		var declared string
		err = rows.Scan(&c.Name, &declared, &c.NotNull, &c.HasDefault, &c.Generated)
		c.Problem = typeProblem(c.Name, declared)
		return c, err
	}, `SELECT lower(name), coalesce(type, ''), "notnull", coalesce(upper(dflt_value), 'NULL') <> 'NULL' OR hidden > 1
			OR pk = 1 AND max(pk) OVER () = 1 AND upper(type) = 'INTEGER', hidden > 1
		FROM pragma_table_xinfo('events', 'main')`)
}

// typeProblem says why a column's type changes our texts, by SQLite's rules for how a column converts its values. What
// is neither TEXT nor a number is NUMERIC: a column declared UUID changes the ID 0123 to 123. It keeps JSON and
// timestamps, which never look like numbers.
func typeProblem(name, declared string) string {
	has := func(word string) bool { return strings.Contains(strings.ToUpper(declared), word) }
	isText := !has("INT") && slices.ContainsFunc([]string{"CHAR", "CLOB", "TEXT"}, has)
	isOther := slices.ContainsFunc([]string{"INT", "BLOB", "REAL", "FLOA", "DOUB"}, has) //nolint:misspell // of DOUBLE
	if declared == "" || isText || !isOther && (name == "payload" || name == "timestamp") {
		return ""
	}
	return "is declared " + declared + ", which does not keep text as it is"
}

// indexes lists the indexes of the events table that cover all rows. Column names are in lower case, and empty for
// expressions and for columns that the index does not compare byte by byte.
func (t *transaction) Indexes() (indexes []storeflow.EventIndex, err error) {
	err = eachRow(t, func(rows *sql.Rows) error {
		var i storeflow.EventIndex
		var column string
		err := rows.Scan(&i.Name, &i.Unique, &column)
		if last := len(indexes) - 1; last < 0 || indexes[last].Name != i.Name {
			indexes = append(indexes, i)
		}
		last := &indexes[len(indexes)-1]
		last.Columns = append(last.Columns, column)
		return err
	}, `SELECT l.name, l."unique", CASE x.coll WHEN 'BINARY' THEN lower(coalesce(x.name, '')) ELSE '' END
		FROM pragma_index_list('events', 'main') AS l, pragma_index_xinfo(l.name, 'main') AS x
		WHERE l.partial = 0 AND x."key" = 1 ORDER BY l.name, x.seqno`)
	return indexes, err
}

func (t *transaction) Names(table string) ([]string, error) {
	return rowsOf(t, scanOne[string], `SELECT lower(name) FROM pragma_table_xinfo(?1, 'main')`, table)
}
