package postgres_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/internal/ramdisk"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// shared is the server of all tests. Each test has a database of its own.
var shared struct {
	once   sync.Once
	server *pgtest.Server
	err    error
}

func TestMain(m *testing.M) {
	if job := os.Getenv(childVariable); job != "" {
		os.Exit(runChild(job))
	}
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" { // a sync of a file in memory costs nothing
		ramdisk.Use()
	}
	if !racing.Long {
		delete(setups, serializable)
	}
	_ = flag.Set("test.parallel", "16") // those that are parallel wait for most of their time
	code := m.Run()
	if s := shared.server; s != nil {
		if err := s.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func server(tb testing.TB) *pgtest.Server {
	tb.Helper()
	shared.once.Do(func() {
		// A table that was emptied and vacuumed between two tests is planned as an empty one when it has ten thousand rows.
		options := pgtest.Options{Settings: []string{
			"max_connections=200", "autovacuum=off", "full_page_writes=off", "max_wal_size=128MB",
		}}
		shared.server, shared.err = pgtest.New(context.Background(), options)
	})
	if errors.Is(shared.err, pgtest.ErrNotInstalled) {
		tb.Skip("PostgreSQL is needed for this test:", shared.err)
	}
	require.NoError(tb, shared.err)
	return shared.server
}

// newDSN returns the connection string of an empty database.
func newDSN(tb testing.TB) string {
	tb.Helper()
	s := server(tb)
	name := emptied.take()
	if name == "" {
		name = s.Database(tb)
		emptied.created(tb, s.DSN(name))
	}
	dsn := s.DSN(name)
	tb.Cleanup(func() { emptied.give(name, dsn) })
	return dsn
}

// openAt opens a store, and closes it when the test ends.
func openAt(tb testing.TB, dsn string, cfg postgres.Config) *postgres.Store {
	tb.Helper()
	s, err := postgres.Open(tb.Context(), dsn, cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { s.Close() })
	return s
}

// openNew opens a store in an empty database, and a pool of another program there.
func openNew(tb testing.TB, cfg postgres.Config) (*postgres.Store, *pgxpool.Pool) {
	tb.Helper()
	dsn := newDSN(tb)
	return openAt(tb, dsn, cfg), hostPool(tb, dsn)
}

// hostPool returns a host's own pool.
func hostPool(tb testing.TB, dsn string, change ...func(*pgxpool.Config)) *pgxpool.Pool {
	tb.Helper()
	config, err := pgxpool.ParseConfig(dsn)
	require.NoError(tb, err)
	for _, c := range change {
		c(config)
	}
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(tb.Context()), config)
	require.NoError(tb, err)
	tb.Cleanup(pool.Close)
	return pool
}

func newStore(tb testing.TB, pool *pgxpool.Pool) *postgres.Store {
	tb.Helper()
	return newStoreWith(tb, pool, postgres.Config{})
}

func newStoreWith(tb testing.TB, pool *pgxpool.Pool, cfg postgres.Config) *postgres.Store {
	tb.Helper()
	s, err := postgres.New(tb.Context(), pool, cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { s.Close() })
	return s
}

func mustExec(tb testing.TB, pool *pgxpool.Pool, statements ...string) {
	tb.Helper()
	for _, statement := range statements {
		_, err := pool.Exec(context.WithoutCancel(tb.Context()), statement)
		require.NoError(tb, err, statement)
	}
}

// begun begins a transaction of another program, with a statement. It ends with the test at the latest.
func begun(tb testing.TB, pool *pgxpool.Pool, statement string, arguments ...any) pgx.Tx {
	tb.Helper()
	tx, err := pool.Begin(tb.Context())
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(tb.Context())) })
	_, err = tx.Exec(tb.Context(), statement, arguments...)
	require.NoError(tb, err)
	return tx
}

// texts returns the first column of a query.
func texts(tb testing.TB, pool *pgxpool.Pool, statement string, arguments ...any) (all []string) {
	tb.Helper()
	rows, err := pool.Query(tb.Context(), statement, arguments...)
	require.NoError(tb, err)
	defer rows.Close()
	for rows.Next() {
		var text string
		require.NoError(tb, rows.Scan(&text))
		all = append(all, text)
	}
	require.NoError(tb, rows.Err())
	return all
}

var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func numbered(n int64) watchdog.Event {
	return watchdog.Event{
		ID: fmt.Sprintf("event-%d", n), AggregateType: watchdog.AggregateType, AggregateID: "run-1",
		Type: watchdog.EventWarning, Payload: []byte(`{"n":1}`), Timestamp: noon.Add(time.Duration(n) * time.Microsecond),
	}
}

func read(tb testing.TB, s *postgres.Store) (ids []string) {
	tb.Helper()
	events, err := s.Read(tb.Context(), watchdog.AggregateType, "run-1")
	require.NoError(tb, err)
	for _, e := range events {
		ids = append(ids, e.ID)
	}
	return ids
}

const (
	threshold = 10 * time.Minute
	minAge    = 2 * time.Minute
)

// A databases has the empty databases of tests that have ended. To create one takes the server longer than most tests,
// because it writes a thousand files.
type databases struct {
	mu    sync.Mutex
	names []string
	fresh string // what contents finds in a database as it is created
}

var emptied databases

// take returns the name of an empty database, or "" if there is none.
func (d *databases) take() (name string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if last := len(d.names) - 1; last >= 0 {
		name, d.names = d.names[last], d.names[:last]
	}
	return name
}

// created notes what a database looks like as it is created.
func (d *databases) created(tb testing.TB, dsn string) {
	tb.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fresh == "" {
		found, err := find(dsn, "")
		require.NoError(tb, err)
		d.fresh = found
	}
}

// give empties a database and keeps it for the next test. One in which something is left is not used again.
func (d *databases) give(name, dsn string) {
	found, err := find(dsn, dropAll)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && found == d.fresh {
		d.names = append(d.names, name)
	}
}

// find runs statements in a database, and then returns what contents finds.
func find(dsn, statements string) (found string, err error) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, statements); err != nil {
		return "", err
	}
	err = conn.QueryRow(ctx, contents).Scan(&found)
	return found, err
}

// dropAll ends the other connections to a database, and drops its tables and schemas.
const dropAll = `DO $$
	DECLARE tables text; schemas text;
	BEGIN
		PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid();
		PERFORM pg_stat_reset();
		SELECT string_agg(oid::regclass::text, ', ') INTO tables FROM pg_class
			WHERE relnamespace = 'public'::regnamespace AND relkind = 'r';
		SELECT string_agg(quote_ident(nspname), ', ') INTO schemas FROM pg_namespace
			WHERE nspname !~ '^pg_' AND nspname NOT IN ('public', 'information_schema');
		IF tables <> '' THEN EXECUTE 'DROP TABLE ' || tables || ' CASCADE'; END IF;
		IF schemas <> '' THEN EXECUTE 'DROP SCHEMA ' || schemas || ' CASCADE'; END IF;
	END $$`

// contents counts what can be in a database, and shows the rights to its schemas.
const contents = `SELECT concat_ws(' ', (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_type),
	(SELECT count(*) FROM pg_proc), (SELECT count(*) FROM pg_collation), (SELECT count(*) FROM pg_default_acl),
	(SELECT count(*) FROM pg_db_role_setting s JOIN pg_database d ON d.oid = s.setdatabase
		WHERE d.datname = current_database()),
	(SELECT string_agg(concat_ws(' ', nspname, nspacl), ', ' ORDER BY oid) FROM pg_namespace
		WHERE nspname !~ '^pg_(toast_)?temp_'))`
