package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// shared is the server that tests have in common, each with a database of its own.
var shared struct {
	once   sync.Once
	server *pgtest.Server
	err    error
}

func TestMain(m *testing.M) {
	if job := os.Getenv(childVariable); job != "" {
		os.Exit(runChild(job))
	}
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
		shared.server, shared.err = pgtest.New(context.Background(), pgtest.Options{Settings: []string{"max_connections=200"}})
	})
	if errors.Is(shared.err, pgtest.ErrNotInstalled) {
		tb.Skip("there is no PostgreSQL to test with:", shared.err)
	}
	require.NoError(tb, shared.err)
	return shared.server
}

func newDSN(tb testing.TB) string {
	tb.Helper()
	s := server(tb)
	return s.DSN(s.Database(tb))
}

// openAt opens a store that is closed with the test.
func openAt(tb testing.TB, dsn string, cfg postgres.Config) *postgres.Store {
	tb.Helper()
	s, err := postgres.Open(tb.Context(), dsn, cfg)
	require.NoError(tb, err)
	tb.Cleanup(func() { s.Close() })
	return s
}

// hostPool is a host's own pool.
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
		_, err := pool.Exec(context.WithoutCancel(tb.Context()), statement)
		require.NoError(tb, err, statement)
	}
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

// A putter is a store with what another program could do.
type putter struct {
	*postgres.Store
	pool *pgxpool.Pool
}

const putRow = `
	INSERT INTO watchdog_sessions (run_id, parent, status, created_at, last_event_at, threshold, started_at, host, attempt, resumes, reason)
	SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::timestamptz[], $5::timestamptz[], $6::bigint[], $7::timestamptz[], $8::text[], $9::bigint[], $10::bigint[], $11::text[])
	ON CONFLICT (run_id) DO UPDATE SET status = excluded.status, created_at = excluded.created_at, last_event_at = excluded.last_event_at,
		threshold = excluded.threshold, attempt = excluded.attempt, parent = excluded.parent, resumes = excluded.resumes, reason = excluded.reason`

func (p putter) Put(ctx context.Context, rows ...session.Session) error {
	var runIDs, parents, statuses, hosts, reasons []string
	var created, started []time.Time
	var last []*time.Time
	var thresholds, attempts, resumes []int64
	for _, s := range rows {
		runIDs, parents, statuses = append(runIDs, s.RunID), append(parents, s.Parent), append(statuses, string(s.Status))
		hosts, reasons = append(hosts, s.Host), append(reasons, string(s.Reason))
		created, started = append(created, s.CreatedAt), append(started, s.StartedAt)
		thresholds, attempts, resumes = append(thresholds, int64(s.Threshold)), append(attempts, int64(s.Attempt)), append(resumes, int64(s.Resumes))
		if s.LastEventAt.IsZero() {
			last = append(last, nil)
		} else {
			last = append(last, &s.LastEventAt)
		}
	}
	_, err := p.pool.Exec(ctx, putRow, runIDs, parents, statuses, created, last, thresholds, started, hosts, attempts, resumes, reasons)
	return err
}

func (p putter) Spoil(ctx context.Context, runID string) error {
	_, err := p.pool.Exec(ctx, `UPDATE watchdog_sessions SET last_event_at = 'infinity' WHERE run_id = $1`, runID)
	return err
}

// emptied is the store without its rows, for the next rule: making new tables takes longer than most rules.
func (p putter) emptied(tb testing.TB) putter {
	tb.Helper()
	mustExec(tb, p.pool, "DELETE FROM events", "DELETE FROM watchdog_sessions")
	return p
}

// Close does nothing: the store is closed with the test.
func (p putter) Close() error { return nil }

// newPutter opens a store, and other connections to its database.
func newPutter(tb testing.TB, dsn, direct string) putter {
	tb.Helper()
	return putter{openAt(tb, dsn, postgres.Config{}), hostPool(tb, direct)}
}

func refusesSecrets(tb testing.TB, err error) {
	tb.Helper()
	require.Error(tb, err)
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
		require.NotContains(tb, text, canary)
	}
	require.NotErrorAs(tb, err, new(*pgconn.ConnectError), "it carries the configuration, with the password")
	require.NotErrorAs(tb, err, new(*pgconn.ParseConfigError), "it carries the connection string")
}

const canary = "canary-7c1e"

const (
	threshold = 10 * time.Minute
	minAge    = 2 * time.Minute
)
