//go:build linux

package histories_test

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // registers the driver "pgx"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// A whole is all that the store in each of the databases is.
type whole interface {
	store
	event.TransactionalStore
	session.Lister
	Close() error
}

// A place is an empty database for the tests of both stores, with a connection of another program.
type place struct {
	*testing.T
	dialect
	db      *sql.DB
	connect func() (whole, error) // opens a store
}

// A dialect is what differs between the databases: statements of another program.
type dialect struct {
	refusing string   // makes a table refuse rows that meet a condition
	dayOn    string   // moves when a start is due by a day
	schema   string   // asks for the names of all that is in the database
	indexes  []string // makes more indexes that are not ours
	triggers []string // drops more of what a store makes than tables
	cascade  string   // drops what refers to a table with it
	foreign  error    // of a table that is not ours
}

var dialects = map[string]dialect{
	"SQLite": {
		refusing: `CREATE TRIGGER refuses_new BEFORE INSERT ON %[1]s WHEN %[2]s
				BEGIN SELECT RAISE(ABORT, 'the host keeps it'); END;
			CREATE TRIGGER refuses BEFORE UPDATE ON %[1]s WHEN %[2]s BEGIN SELECT RAISE(ABORT, 'the host keeps it'); END`,
		dayOn:    "UPDATE watchdog_sessions SET start_due = start_due + 86400000000",
		schema:   "SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite%' ORDER BY name",
		indexes:  []string{"CREATE INDEX folded ON events (event_type COLLATE NOCASE)"},
		triggers: []string{"DROP TRIGGER watchdog_leases_named", "DROP TRIGGER watchdog_lease_ends_untold"},
		foreign:  sqlite.ErrForeignTable,
	},
	"PostgreSQL": {
		refusing: `CREATE OR REPLACE FUNCTION refuses() RETURNS trigger LANGUAGE plpgsql
				AS $$ BEGIN RAISE 'the host keeps it'; END $$;
			CREATE TRIGGER refuses BEFORE INSERT OR UPDATE ON %[1]s FOR EACH ROW WHEN (%[2]s) EXECUTE FUNCTION refuses()`,
		dayOn:  "UPDATE watchdog_sessions SET start_due = start_due + interval '1 day'",
		schema: "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY relname",
		indexes: []string{
			"CREATE INDEX hashed ON events USING hash (event_type)",
			`CREATE INDEX ordered ON events (event_type COLLATE "POSIX")`,
		},
		cascade: " CASCADE",
		foreign: postgres.ErrForeignTable,
	},
}

// TestBoth has each store do what a store need not do by its contract, in its own SQL: with tables, indexes, rows and
// clocks of others.
func TestBoth(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{Settings: []string{"autovacuum=off"}})
	for name, test := range map[string]func(p place){
		"a database of another version":                 otherVersions,
		"a table that was dropped is made again":        dropped,
		"a table that is not ours":                      foreign,
		"indexes of the host's":                         foreignIndexes,
		"a row that is refused":                         refusedRow,
		"a row that became unreadable is not cancelled": unreadable,
		"an end that another program says":              endOfAnother,
		"a start after a clock was set back":            startAfterClock,
	} {
		t.Run(name+", in SQLite", func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "both.db")
			test(newPlace(t, "SQLite", "sqlite", file+"?_pragma=busy_timeout(60000)", func() (whole, error) {
				return sqlite.Open(t.Context(), file)
			}))
		})
		t.Run(name+", in PostgreSQL", func(t *testing.T) {
			t.Parallel()
			dsn := server.DSN(server.Database(t)) + "&timezone=UTC"
			test(newPlace(t, "PostgreSQL", "pgx", dsn, func() (whole, error) {
				return postgres.Open(t.Context(), dsn, postgres.Config{Logger: quiet})
			}))
		})
	}
}

func newPlace(t *testing.T, name, driver, source string, connect func() (whole, error)) place {
	t.Helper()
	db, err := sql.Open(driver, source)
	require.NoError(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return place{t, dialects[name], db, connect}
}

// open returns a store, which is closed when the test ends.
func (p place) open() whole {
	p.Helper()
	s, err := p.connect()
	require.NoError(p, err)
	p.Cleanup(func() { require.NoError(p, s.Close()) })
	return s
}

// made returns the place after a store was there.
func (p place) made() place {
	p.Helper()
	require.NoError(p, p.open().Close())
	return p
}

func (p place) exec(statements ...string) {
	p.Helper()
	for _, statement := range statements {
		_, err := p.db.ExecContext(context.WithoutCancel(p.Context()), statement)
		require.NoError(p, err, statement)
	}
}

// query returns the only column of all rows.
func (p place) query(statement string) (all []string) {
	p.Helper()
	rows, err := p.db.QueryContext(p.Context(), statement)
	require.NoError(p, err, statement)
	defer rows.Close()
	for rows.Next() {
		var text string
		require.NoError(p, rows.Scan(&text))
		all = append(all, text)
	}
	require.NoError(p, rows.Err())
	return all
}

// refuse has a table refuse rows from now on.
func (p place) refuse(table, condition string) {
	p.Helper()
	p.exec(fmt.Sprintf(p.refusing, table, condition))
}

// refuses checks that no store opens, and that nothing is changed.
func (p place) refuses(want error, names ...string) {
	p.Helper()
	before := p.query(p.schema)
	_, err := p.connect()
	if want != nil { // else a sentence says why
		require.ErrorIs(p, err, want)
	}
	for _, name := range names {
		require.ErrorContains(p, err, name)
	}
	require.Equal(p, before, p.query(p.schema))
}

func (p place) attach(s whole, runID, lease string) session.Session {
	p.Helper()
	_, after, err := s.Attach(p.Context(), session.Session{RunID: runID, StartedAt: firstStart, Lease: lease})
	require.NoError(p, err)
	return after
}

func (p place) row(s whole, runID string) session.Session {
	p.Helper()
	row, err := s.Session(p.Context(), runID)
	require.NoError(p, err)
	return row
}

// endOf is an end of run-1.
func endOf(id string) watchdog.Event {
	return watchdog.Event{
		ID: id, AggregateType: event.AggregateType, AggregateID: "run-1", Type: event.Cancel,
		Payload: []byte(`{"reason":"wall_clock_exceeded"}`), Timestamp: firstStart,
	}
}

func otherVersions(p place) {
	p.exec("CREATE TABLE watchdog_schema (version integer PRIMARY KEY, oldest_reader integer)",
		"INSERT INTO watchdog_schema VALUES (1, 1), (7, 3)")
	p.refuses(nil, "7", "made before the first release")
	p.exec("INSERT INTO watchdog_schema VALUES (99, 99)")
	p.refuses(sqlite.ErrNewerSchema, "99")
	p.exec("DROP TABLE watchdog_schema")
	p.made().exec("ALTER TABLE watchdog_sessions ADD COLUMN newer text", "INSERT INTO watchdog_schema VALUES (98, 1), (99, 1)")
	before := p.query(p.schema)
	p.attach(p.open(), "run-1", "")
	require.Equal(p, before, p.query(p.schema))
	require.Equal(p, []string{"8", "98", "99"}, p.query("SELECT version FROM watchdog_schema ORDER BY version"))
	for _, oldest := range []string{"9", "97"} {
		p.exec("UPDATE watchdog_schema SET oldest_reader = " + oldest + " WHERE version = 99")
		p.refuses(sqlite.ErrNewerSchema)
	}
}

func dropped(p place) {
	p.made()
	before := p.query(p.schema)
	drops := p.triggers
	for _, table := range []string{
		"events", "watchdog_sessions", "watchdog_leases", "watchdog_lease_ends",
	} {
		drops = append(drops, "DROP TABLE "+table+p.cascade)
	}
	for i, drop := range drops {
		p.exec(drop)
		s := p.open()
		require.Equal(p, before, p.query(p.schema), drop)
		lease, runID := fmt.Sprint("lease-", i), fmt.Sprint("run-", i)
		require.NoError(p, s.BeginLease(p.Context(), session.Lease{ID: lease, Promise: time.Minute}))
		p.attach(s, runID, lease)
		require.NoError(p, s.Append(p.Context(), endOf(fmt.Sprint("end-", i))))
		require.NoError(p, s.Close())
	}
}

// foreign tables are refused by what they lack, and tables of the host's with other names are left alone.
func foreign(p place) {
	p.exec("CREATE TABLE sessions (id integer)", "CREATE TABLE watchdog_sessions (run_id text PRIMARY KEY, status text)")
	p.refuses(p.foreign, "watchdog_sessions lacks parent, created_at")
	p.exec("DROP TABLE watchdog_sessions")
	p.made()
	p.exec("DROP TABLE watchdog_lease_ends", "CREATE TABLE watchdog_lease_ends (id text, tenant text)")
	p.refuses(p.foreign, "watchdog_lease_ends lacks")
	p.exec("DROP TABLE watchdog_lease_ends")
	p.attach(p.open(), "run-1", "")
	require.Empty(p, p.query("SELECT id FROM sessions"))
}

// Of the host's indexes those are used that are as ours, and no other.
func foreignIndexes(p place) {
	const own, ownType = "watchdog_events_aggregate", "watchdog_events_type"
	p.made().exec("DROP TABLE watchdog_schema", "DROP INDEX "+own, "DROP INDEX "+ownType,
		`CREATE INDEX theirs ON events (aggregate_type, aggregate_id, "timestamp", id)`,
		`CREATE INDEX types ON events (event_type, "timestamp")`)
	p.made()
	require.NotContains(p, p.query(p.schema), own)
	require.NotContains(p, p.query(p.schema), ownType)
	p.exec("DROP TABLE watchdog_schema", "DROP INDEX theirs", "DROP INDEX types",
		`CREATE INDEX partly ON events (aggregate_type, aggregate_id, "timestamp") WHERE event_type = 'x'`,
		`CREATE INDEX swapped ON events (aggregate_id, aggregate_type, "timestamp")`,
		`CREATE INDEX computed ON events (lower(event_type))`)
	p.exec(p.indexes...)
	p.made()
	require.Subset(p, p.query(p.schema), []string{own, ownType, "partly", "swapped", "computed"})
}

// What the database refuses does not take its batch with it.
func refusedRow(p place) {
	const runs = 50
	s := p.open()
	require.NoError(p, s.BeginLease(p.Context(), session.Lease{ID: "lease-1", Promise: time.Minute}))
	var fresh []session.Freshness
	var ends []session.Ending
	for i := range runs {
		runID := fmt.Sprint("run-", i)
		p.attach(s, runID, "")
		fresh = append(fresh, session.Freshness{RunID: runID, Attempt: 1})
		ends = append(ends, session.Ending{RunID: runID, Attempt: 1, Status: session.Finished})
	}
	p.refuse("watchdog_sessions", "new.run_id IN ('run-11', 'run-30')")
	two := func(skipped session.Skipped, err error) {
		p.Helper()
		require.NoError(p, err)
		require.Empty(p, skipped.Gone)
		require.Empty(p, skipped.Locked)
		require.Len(p, skipped.Failed, 2)
		for _, runID := range []string{"run-11", "run-30"} {
			require.ErrorContains(p, skipped.Failed[runID], "the host keeps it")
		}
	}
	two(s.Freshen(p.Context(), "lease-1", fresh))
	two(s.End(p.Context(), ends[:40]))
	require.Equal(p, session.Finished, p.row(s, "run-12").Status)
	require.Equal(p, "lease-1", p.row(s, "run-45").Lease)
	require.Equal(p, session.Active, p.row(s, "run-30").Status)
}

func unreadable(p place) {
	s := p.open()
	judged := p.attach(s, "run-1", "")
	p.exec("UPDATE watchdog_sessions SET threshold = -1")
	outcome, err := s.Cancel(p.Context(), judged, session.CancelRequest{
		Reason: watchdog.SessionIdleTimeout, Events: []watchdog.Event{endOf("end")},
	})
	require.NoError(p, err)
	require.Equal(p, session.Changed, outcome)
	require.Empty(p, p.query("SELECT id FROM events"))
}

// endOfAnother has no time, also if the attempt before had one.
func endOfAnother(p place) {
	s := p.open()
	p.attach(s, "run-1", "")
	_, err := s.End(p.Context(), []session.Ending{{RunID: "run-1", Attempt: 1, Status: session.Finished}})
	require.NoError(p, err)
	require.NotZero(p, p.row(s, "run-1").EndedAt)
	p.attach(s, "run-1", "")
	p.exec("UPDATE watchdog_sessions SET status = 'cancelled'")
	require.Zero(p, p.row(s, "run-1").EndedAt)
}

// A start of a clock that was days ahead is not waited for.
func startAfterClock(p place) {
	s := p.open()
	_, err := s.Cancel(p.Context(), p.attach(s, "run-1", ""), session.CancelRequest{
		Events: []watchdog.Event{endOf("end")}, StartFor: 20 * time.Hour,
	})
	require.NoError(p, err)
	_, err = s.ClaimStart(p.Context(), time.Hour)
	require.ErrorIs(p, err, session.ErrNotFound)
	p.exec(p.dayOn)
	claimed, err := s.ClaimStart(p.Context(), time.Hour)
	require.NoError(p, err)
	require.Equal(p, "run-1", claimed.RunID)
	_, err = s.ClaimStart(p.Context(), time.Hour)
	require.ErrorIs(p, err, session.ErrNotFound)
}
