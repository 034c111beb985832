package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/event/eventtest"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/session/sessiontest"
	"github.com/seed62658d38/watchdog/store/internal/testrun"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// serializable is a setup of long runs only: it runs the same statements as the others.
const serializable = "under serializable transactions and German dates"

const opened = "opened"

// setups are the ways to open a store. A store keeps every rule in each of them.
var setups = map[string]func(t *testing.T) putter{
	opened: func(t *testing.T) putter {
		dsn := newDSN(t)
		return newPutter(t, dsn, dsn)
	},
	"in a host's table and pool of one connection, without a cache, with German dates in another zone": func(t *testing.T) putter {
		dsn := newDSN(t)
		mustExec(t, hostPool(t, dsn), foreignTable)
		pool := hostPool(t, dsn, func(c *pgxpool.Config) {
			c.MaxConns, c.ConnConfig.StatementCacheCapacity, c.ConnConfig.DescriptionCacheCapacity = 1, 0, 0
			c.ConnConfig.RuntimeParams["TimeZone"] = "Asia/Kolkata"
			c.ConnConfig.RuntimeParams["DateStyle"] = "German"
		})
		return putter{newStore(t, pool), hostPool(t, dsn)}
	},
	serializable: func(t *testing.T) putter {
		dsn := newDSN(t)
		pool := hostPool(t, dsn, func(c *pgxpool.Config) {
			c.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
			c.ConnConfig.RuntimeParams["DateStyle"] = "German"
		})
		return putter{newStore(t, pool), hostPool(t, dsn)}
	},
}

func TestEvents(t *testing.T) {
	t.Parallel()
	keepsRules := func(t *testing.T, open func(t *testing.T) putter) {
		t.Helper()
		t.Parallel()
		s := open(t)
		eventtest.Run(t, func(t *testing.T) event.Store { return s.emptied(t) })
	}
	for name, open := range setups {
		t.Run(name, func(t *testing.T) { keepsRules(t, open) })
	}
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheDescribe, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		t.Run("in a pool with the mode "+mode.String(), func(t *testing.T) {
			keepsRules(t, func(t *testing.T) putter {
				dsn := newDSN(t)
				pool := hostPool(t, dsn, func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
				return putter{newStore(t, pool), hostPool(t, dsn)}
			})
		})
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	for name, open := range setups {
		t.Run(name, func(t *testing.T) {
			if name == opened {
				testrun.LongOnly(t) // it runs the same statements as the host's, and most other tests do, too
			}
			t.Parallel()
			s := open(t)
			sessiontest.Run(t, func(t *testing.T) session.Store { return s.emptied(t) })
		})
	}
}

func TestDurable(t *testing.T) {
	t.Parallel()
	eventtest.RunDurable(t, func(t *testing.T) func() (event.Store, error) {
		dsn := newDSN(t)
		return func() (event.Store, error) { return postgres.Open(t.Context(), dsn, postgres.Config{}) }
	})
}

// withoutListener hides Listen, which does not work through a pooler in transaction mode.
type withoutListener struct {
	session.Store
	sessiontest.Putter
}

func TestTransactionPooler(t *testing.T) {
	t.Parallel()
	pooler := pgtest.StartPooler(t, server(t), pgtest.TransactionMode)
	through := func(t *testing.T) putter {
		name := server(t).Database(t)
		return newPutter(t, pooler.DSN(name), server(t).DSN(name))
	}
	t.Run("keeps every rule of events", func(t *testing.T) {
		t.Parallel()
		s := through(t)
		eventtest.Run(t, func(t *testing.T) event.Store { return s.emptied(t) })
	})
	t.Run("keeps every rule of sessions, except those of listening", func(t *testing.T) {
		testrun.LongOnly(t)
		t.Parallel()
		s := through(t)
		sessiontest.Run(t, func(t *testing.T) session.Store { return withoutListener{s.emptied(t), s} })
	})
	t.Run("cannot listen, and says so", func(t *testing.T) {
		t.Parallel()
		s, began := through(t), time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		require.ErrorIs(t, s.Listen(ctx, cancel, func(string) {}), postgres.ErrNoNotifications, "it was ready")
		require.Less(t, time.Since(began), 30*time.Second)
	})
	t.Run("cancels each session once", func(t *testing.T) {
		t.Parallel()
		cancelsAtOnce(t, through(t))
	})
}

func TestSessionPooler(t *testing.T) {
	t.Parallel()
	pooler := pgtest.StartPooler(t, server(t), pgtest.SessionMode)
	name := server(t).Database(t)
	listenLatencies(t, newPutter(t, pooler.DSN(name)+"&pool_max_conns=1", server(t).DSN(name)))
}

func TestClosedStore(t *testing.T) {
	t.Parallel()
	t.Run("refuses every call", func(t *testing.T) {
		s := openAt(t, newDSN(t), postgres.Config{})
		require.NoError(t, s.Close())
		for name, err := range eachCall(t.Context(), s) {
			require.ErrorIs(t, err, postgres.ErrClosed, name)
		}
		require.NoError(t, s.Close())
	})
	t.Run("ends Listen", func(t *testing.T) {
		s := openAt(t, newDSN(t), postgres.Config{})
		l := listen(t, s)
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-l.ended, postgres.ErrClosed)
	})
	t.Run("leaves the host's pool open", func(t *testing.T) {
		pool := hostPool(t, newDSN(t))
		require.NoError(t, newStore(t, pool).Close())
		require.NoError(t, pool.Ping(t.Context()))
	})
}

// eachCall makes every call of a store and returns the errors.
func eachCall(ctx context.Context, s *postgres.Store) map[string]error {
	errs := map[string]error{"Listen": s.Listen(ctx, func() {}, func(string) {})}
	for name, call := range tableCalls(ctx, s) {
		errs[name] = call()
	}
	return errs
}

// tableCalls returns every call of a store that reads or writes its tables.
func tableCalls(ctx context.Context, s *postgres.Store) map[string]func() error {
	judged := session.Session{RunID: "run-1", Attempt: 1}
	cancel := session.CancelRequest{Reason: "r", Events: []event.Event{numbered(2)}}
	selection := event.Selection{AggregateType: event.AggregateType, AggregateID: "run-1"}
	return map[string]func() error{
		"Append": func() error { return s.Append(ctx, numbered(1)) },
		"Read":   func() error { return second(s.Read(ctx, event.AggregateType, "run-1")) },
		"Attach": func() error { return third(s.Attach(ctx, session.Session{RunID: "run-1", StartedAt: noon})) },
		"Freshen": func() error {
			return second(s.Freshen(ctx, lease1, []session.Freshness{{RunID: "run-1", Attempt: 1}}))
		},
		"BeginLease":                     func() error { return s.BeginLease(ctx, leaseOf(lease1)) },
		"RenewLease":                     func() error { return s.RenewLease(ctx, leaseOf(lease1)) },
		"ObserveLeases":                  func() error { return second(s.ObserveLeases(ctx, []string{lease1})) },
		"ObserveLeases without suspects": func() error { return second(s.ObserveLeases(ctx, nil)) },
		"ExpireLease":                    func() error { return third(s.ExpireLease(ctx, leaseOf(lease1))) },
		"LeaseSessions":                  func() error { return second(s.LeaseSessions(ctx, lease1)) },
		"End": func() error {
			return second(s.End(ctx, []session.Ending{{RunID: "run-1", Attempt: 1, Status: session.Finished}}))
		},
		"Session": func() error { return second(s.Session(ctx, "run-1")) },
		"Stalled": func() error { return second(s.Stalled(ctx, session.Query{Threshold: time.Hour, Limit: 1})) },
		"List":    func() error { return second(s.List(ctx, session.ListQuery{Limit: 1})) },
		"Claim":   func() error { return second(s.Claim(ctx, judged, session.ClaimRequest{By: "pass"})) },
		"Warn":    func() error { return second(s.Warn(ctx, judged, []event.Event{numbered(3)})) },
		"Cancel":  func() error { return second(s.Cancel(ctx, judged, cancel)) },
		"CancelAll": func() error {
			return second(s.CancelAll(ctx, []session.BatchedCancel{{Judged: judged, Request: cancelOf("cancel", "run-1")}}))
		},
		"Ended":    func() error { return second(s.Ended(ctx, lease1, nil)) },
		"History":  func() error { return second(s.History(ctx, session.HistoryQuery{To: noon, By: session.ByDay})) },
		"Select":   func() error { return second(s.Select(ctx, selection)) },
		"Transact": func() error { return s.Transact(ctx, counting("run-1")) },
		"Layers":   func() error { return second(s.Layers(ctx, "run-1")) },
	}
}

// reading are the calls of tableCalls that only read.
var reading = []string{
	"Ended", "History", "Layers", "LeaseSessions", "List", "ObserveLeases without suspects", "Read", "Select",
	"Session", "Stalled",
}

func TestInvalidArguments(t *testing.T) {
	t.Parallel()
	ctx, dsn := t.Context(), newDSN(t)
	_, err := postgres.New(ctx, nil, postgres.Config{})
	require.ErrorContains(t, err, "nil")
	for name, schema := range map[string]string{"has 64 bytes": strings.Repeat("s", 64), "NUL": "a\x00b"} {
		_, err := postgres.Open(ctx, dsn, postgres.Config{Schema: schema})
		require.ErrorContains(t, err, name)
	}
	s := openAt(t, dsn, postgres.Config{})
	_, _, err = s.Attach(ctx, session.Session{RunID: "run-1", Threshold: -1})
	require.ErrorContains(t, err, "threshold")
	_, err = s.Stalled(ctx, session.Query{Limit: 1, After: "nonsense"})
	require.ErrorContains(t, err, "nonsense")
	_, err = s.History(ctx, session.HistoryQuery{By: "weather"})
	require.ErrorContains(t, err, "weather")
}

// A putter is a store with a pool of another program, which writes to the store's tables directly.
type putter struct {
	*postgres.Store
	pool *pgxpool.Pool
}

const putRow = `
	INSERT INTO watchdog_sessions
		(run_id, parent, status, created_at, last_event_at, threshold, started_at, host, attempt, resumes, reason)
	SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::bigint[],
		$7::timestamptz[], $8::text[], $9::bigint[], $10::bigint[], $11::text[])
	ON CONFLICT (run_id) DO UPDATE SET
		status = excluded.status, created_at = excluded.created_at, last_event_at = excluded.last_event_at,
		threshold = excluded.threshold, attempt = excluded.attempt, parent = excluded.parent,
		resumes = excluded.resumes, reason = excluded.reason`

func (p putter) Put(ctx context.Context, rows ...session.Session) error {
	var runIDs, parents, statuses, hosts, reasons []string
	var created, started []time.Time
	var last []*time.Time
	var thresholds, attempts, resumes []int64
	for _, s := range rows {
		runIDs, parents = append(runIDs, s.RunID), append(parents, s.Parent)
		statuses, thresholds = append(statuses, string(s.Status)), append(thresholds, int64(s.Threshold))
		hosts, reasons = append(hosts, s.Host), append(reasons, string(s.Reason))
		created, started = append(created, s.CreatedAt), append(started, s.StartedAt)
		attempts, resumes = append(attempts, int64(s.Attempt)), append(resumes, int64(s.Resumes))
		if s.LastEventAt.IsZero() {
			last = append(last, nil)
		} else {
			last = append(last, &s.LastEventAt)
		}
	}
	_, err := p.pool.Exec(ctx, putRow,
		runIDs, parents, statuses, created, last, thresholds, started, hosts, attempts, resumes, reasons)
	return err
}

func (p putter) Spoil(ctx context.Context, runID string) error {
	_, err := p.pool.Exec(ctx, `UPDATE watchdog_sessions SET last_event_at = 'infinity' WHERE run_id = $1`, runID)
	return err
}

// emptyTables deletes all rows. A table of more than a few pages is made anew: nothing vacuums it, and each later look
// would pass over all the rows that it once had.
const emptyTables = `DO $$
	DECLARE one text;
	BEGIN
		FOREACH one IN ARRAY ARRAY['events', 'watchdog_sessions', 'watchdog_leases', 'watchdog_lease_ends']
		LOOP
			EXECUTE CASE WHEN pg_relation_size(one) > 65536 THEN 'TRUNCATE ' ELSE 'DELETE FROM ' END || one;
		END LOOP;
	END $$`

// emptied returns the store after it deleted all rows, for the next rule. Creating new tables takes longer than most
// rules.
func (p putter) emptied(tb testing.TB) putter {
	tb.Helper()
	mustExec(tb, p.pool, emptyTables)
	return p
}

// Close does nothing, because the next rule uses the store again. The store is closed when the test ends.
func (p putter) Close() error { return nil }

// newPutter opens a patient store, and a pool with direct connections to its database. What notifies waits at its commit
// for whatever else on the server does so.
func newPutter(tb testing.TB, dsn, direct string) putter {
	tb.Helper()
	return putter{openAt(tb, dsn, postgres.Config{}).Patient(), hostPool(tb, direct)}
}

func TestLayers(t *testing.T) {
	t.Parallel()
	for name, open := range setups {
		t.Run(name, func(t *testing.T) { findsLayers(t, open(t)) })
	}
	t.Run("without the index", func(t *testing.T) {
		s := setups[opened](t)
		mustExec(t, s.pool, "DROP INDEX watchdog_events_parent")
		findsLayers(t, s)
	})
}

func findsLayers(t *testing.T, s putter) {
	t.Helper()
	long := strings.Repeat("ü", 255)
	var events []event.Event
	for i, payload := range []string{
		`{"parent":"run"}`, `{"a":1, "parent" : "run"}`, `{"parent":"r\u0075n"}`, `{"parent":"run","a":"\u0000\ud800"}`,
		`{"parent":"other","parent":"run"}`, `{"parent":"ru\/n"}`, `{"parent":5}`, `{"parent":null}`, `{"parent":["run"]}`,
		`{"a":{"parent":"run"}}`, `{"Parent":"run"}`, `{"a":"\"parent\":\"run\""}`, `{"parent":"run\u0000"}`, `{"parent":""}`,
		`{"parent":"` + long + `"}`, `{"parent":"` + long + `x"}`, `{"parent":"` + strings.Repeat(long, 100) + `"}`,
		`{"parent":"\\u"}`, `{"parent":"run/a"}`, `{"parent":"%"}`,
	} {
		e := numbered(int64(i))
		e.AggregateID, e.Payload = fmt.Sprintf("layer-%02d", i), []byte(payload)
		events = append(events, e)
	}
	again, theirs := events[0], events[0]
	again.ID, theirs.ID, theirs.AggregateType, theirs.AggregateID = "again", "theirs", "theirs", "theirs"
	require.NoError(t, s.Append(t.Context(), append(events, again, theirs)...))
	for parent, want := range map[string]string{
		"run": "00 01 02 03 04", "ru/n": "05", "5": "", "": "", long: "14", long + "x": "15", `\u`: "17",
		"run/a": "18", "%": "19", "missing": "", "other": "", strings.Repeat(long, 100): "16",
	} {
		layers, err := s.Layers(t.Context(), parent)
		require.NoError(t, err, parent)
		require.Equal(t, want, strings.ReplaceAll(strings.Join(layers, " "), "layer-", ""), "the layers of %.20s", parent)
	}
}

// TestNarrowIDs protects a host whose events table has room for UUIDs only: it learns at the start that layers do not
// fit, and not from the first that is lost.
func TestNarrowIDs(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind   string
		warned bool
	}{
		"of 36 characters":             {"varchar(36)", true},
		"of one character too few":     {"varchar(254)", true},
		"as long as ours":              {"varchar(255)", false},
		"of any length":                {"varchar", false},
		"of any length, in their text": {"text", false},
	} {
		t.Run("a column "+name, func(t *testing.T) {
			dsn := newDSN(t)
			pool := hostPool(t, dsn)
			mustExec(t, pool, changed("aggregate_id varchar(255)", "aggregate_id "+test.kind))
			var log bytes.Buffer
			s := openAt(t, dsn, postgres.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			require.NoError(t, s.Append(t.Context(), numbered(1)))
			require.Equal(t, test.warned, strings.Contains(log.String(), "too short for layers"), log.String())
			if test.warned {
				require.Contains(t, log.String(), "TYPE varchar(255)")
			}
		})
	}
}

// shared is the server of all tests. Each test has a database of its own.
var shared struct {
	once   sync.Once
	server *pgtest.Server
	err    error
}

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.bench").Value.String() == "" { // a sync of a file in memory costs nothing
		testrun.InMemory()
	}
	if !testrun.Long {
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

// openPatient opens a store that waits for locks for as long as it takes, in an empty database, and a pool of another
// program there.
func openPatient(tb testing.TB) (*postgres.Store, *pgxpool.Pool) {
	tb.Helper()
	s, stranger := openNew(tb)
	return s.Patient(), stranger
}

// shortly returns a context in which a call that a patient store has wait for a lock fails.
func shortly(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}

// openNew opens a store in an empty database, and a pool of another program there.
func openNew(tb testing.TB) (*postgres.Store, *pgxpool.Pool) {
	tb.Helper()
	dsn := newDSN(tb)
	return openAt(tb, dsn, postgres.Config{}), hostPool(tb, dsn)
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
	s, err := postgres.New(tb.Context(), pool, postgres.Config{})
	require.NoError(tb, err)
	tb.Cleanup(func() { s.Close() })
	return s
}

func mustExec(tb testing.TB, pool *pgxpool.Pool, statements ...string) {
	tb.Helper()
	for _, statement := range statements {
		require.NoError(tb, second(pool.Exec(context.WithoutCancel(tb.Context()), statement)), statement)
	}
}

// begun begins a transaction of another program, with a statement. It ends with the test at the latest.
func begun(tb testing.TB, pool *pgxpool.Pool, statement string, arguments ...any) pgx.Tx {
	tb.Helper()
	tx, err := pool.Begin(tb.Context())
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = tx.Rollback(context.WithoutCancel(tb.Context())) })
	require.NoError(tb, second(tx.Exec(tb.Context(), statement, arguments...)))
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

func numbered(n int64) event.Event {
	return event.Event{
		ID: fmt.Sprintf("event-%d", n), AggregateType: event.AggregateType, AggregateID: "run-1",
		Type: event.Warning, Payload: []byte(`{"n":1}`), Timestamp: noon.Add(time.Duration(n) * time.Microsecond),
	}
}

func read(tb testing.TB, s *postgres.Store) (ids []string) {
	tb.Helper()
	events, err := s.Read(tb.Context(), event.AggregateType, "run-1")
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
