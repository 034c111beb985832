package postgres_test

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

func TestOutage(t *testing.T) {
	t.Parallel()
	own := pgtest.Start(t, pgtest.Options{})
	s := openAt(t, own.DSN(own.Database(t)), withOutbox)
	judged := attach(t, s, "run-1")
	for name, stop := range map[string]func(){
		"that is stopped":         func() { own.Stop(false) },
		"that is stopped at once": func() { own.Stop(true) },
		"that crashes":            own.Kill,
	} {
		t.Run(name+" makes calls fail, and later calls work when it is back", func(t *testing.T) {
			ready, ended := make(chan struct{}), make(chan error, 1)
			go func() { ended <- s.Listen(t.Context(), func() { close(ready) }, func(string) {}) }()
			select {
			case <-ready:
			case err := <-ended:
				require.NoError(t, err)
			}
			stop()
			defer own.Restart()
			require.ErrorContains(t, <-ended, "event database", "Listen says that the connection is lost")
			for call, err := range eachCall(t.Context(), s) {
				require.ErrorContains(t, err, "event database", call)
				require.Regexp(t, "no server listens there|the connection broke", err.Error(), call)
			}
			_, err := postgres.Open(t.Context(), own.DSN("postgres"), postgres.Config{})
			require.ErrorContains(t, err, "no server listens there")
			require.NoError(t, own.Restart())
			begin(t, s, lease1)
			page, err := s.Stalled(t.Context(), session.Query{Threshold: threshold, Limit: 1})
			require.NoError(t, err)
			assert.Empty(t, page.Sessions)
			skipped, err := s.Freshen(t.Context(), lease1, []session.Freshness{{RunID: judged.RunID, Attempt: judged.Attempt}})
			require.NoError(t, err)
			assert.Empty(t, skipped.Gone)
		})
	}
}

func TestTooManyConnections(t *testing.T) {
	t.Parallel()
	own := pgtest.Start(t, pgtest.Options{Settings: []string{
		"max_connections=4", "superuser_reserved_connections=0", "max_wal_senders=0", "autovacuum=off",
	}})
	dsn := own.DSN(own.Database(t))
	s := openAt(t, dsn, postgres.Config{})
	other := hostPool(t, dsn+"&pool_max_conns=4")
	for range 3 {
		conn, err := other.Acquire(t.Context())
		require.NoError(t, err)
		t.Cleanup(conn.Release)
	}
	_, err := postgres.Open(t.Context(), dsn, postgres.Config{})
	require.ErrorContains(t, err, "max_connections")
	require.ErrorContains(t, s.Listen(t.Context(), func() {}, func(string) {}), "max_connections")
	require.NoError(t, s.Append(t.Context(), numbered(1)), "the pool has a connection")
}

func TestBlockedServer(t *testing.T) {
	dsn := newDSN(t)
	s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	judged := attach(t, s, "run-1")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), "LOCK TABLE watchdog_sessions, events")
	require.NoError(t, err)
	t.Run("blocks a call until its context ends", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		for call, err := range eachCall(ctx, s) {
			if call != "Listen" {
				require.ErrorIs(t, err, context.DeadlineExceeded, call)
			}
		}
	})
	t.Run("blocks a call until statement_timeout", func(t *testing.T) {
		limited := openWithLimit(t, dsn, "statement_timeout", "250")
		_, err := limited.Cancel(t.Context(), judged, cancelOf("c", judged.RunID))
		require.ErrorContains(t, err, "statement_timeout")
	})
	t.Run("blocks a call until lock_timeout", func(t *testing.T) {
		limited := openWithLimit(t, dsn, "lock_timeout", "50")
		require.ErrorContains(t, limited.Append(t.Context(), numbered(1)), "lock_timeout")
	})
	require.NoError(t, tx.Rollback(t.Context()))
	after, err := s.Session(t.Context(), judged.RunID)
	require.NoError(t, err)
	assert.Equal(t, session.Active, after.Status)
}

// openWithLimit opens a store in a schema of its own, with a limit for its statements, and then locks its tables.
func openWithLimit(t *testing.T, dsn, setting, value string) *postgres.Store {
	t.Helper()
	admin := hostPool(t, dsn)
	require.NoError(t, openAt(t, dsn, postgres.Config{Schema: "limited"}).Close()) // creating it takes longer
	s, err := postgres.Open(t.Context(), dsn+"&"+setting+"="+value, postgres.Config{Schema: "limited"})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	tx, err := admin.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE limited.watchdog_sessions, limited.events")
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return s
}

func TestReadOnlyDatabase(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	_, err := postgres.Open(t.Context(), dsn+"&default_transaction_read_only=on", postgres.Config{})
	require.ErrorContains(t, err, "read-only")
	assert.Empty(t, texts(t, hostPool(t, dsn), everything))
}

func TestMissingRights(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	pool := hostPool(t, dsn)
	mustExec(t, pool, "DROP ROLE IF EXISTS guest", "CREATE ROLE guest LOGIN", "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	asGuest := strings.Replace(dsn, "user=postgres", "user=guest", 1)
	t.Run("cannot make the tables, and is told what to do", func(t *testing.T) {
		_, err := postgres.Open(t.Context(), asGuest, postgres.Config{})
		require.ErrorContains(t, err, "permission denied")
		require.ErrorContains(t, err, "let a role that may create tables")
	})
	openAt(t, dsn, postgres.Config{})
	t.Run("is told which rights it lacks", func(t *testing.T) {
		mustExec(t, pool, "GRANT SELECT ON watchdog_schema TO guest", "GRANT SELECT, INSERT ON events TO guest",
			"GRANT SELECT, INSERT ON watchdog_sessions TO guest", "GRANT SELECT, INSERT, UPDATE ON watchdog_spend TO guest",
			"GRANT SELECT ON watchdog_slices TO guest")
		_, err := postgres.Open(t.Context(), asGuest, postgres.Config{})
		require.ErrorContains(t, err, "grant it INSERT on watchdog_slices, UPDATE on watchdog_slices, "+
			"UPDATE on watchdog_sessions, DELETE on watchdog_leases, INSERT on watchdog_leases")
	})
	t.Run("uses the tables of another role after it was granted the rights", func(t *testing.T) {
		mustExec(t, pool, "GRANT UPDATE ON watchdog_sessions TO guest",
			"GRANT SELECT, INSERT, UPDATE, DELETE ON watchdog_leases TO guest",
			"GRANT SELECT, INSERT, DELETE ON watchdog_lease_ends TO guest",
			"GRANT INSERT, UPDATE ON watchdog_slices TO guest")
		s := openAt(t, asGuest, postgres.Config{})
		cancelsAtOnce(t, s)
		l := begin(t, s, lease1)
		attachLeased(t, s, lease1, "run-1")
		expired, left, err := s.ExpireLease(t.Context(), l)
		require.NoError(t, err)
		assert.True(t, expired)
		assert.Zero(t, left)
		_, err = postgres.Open(t.Context(), asGuest, postgres.Config{Outbox: true})
		require.ErrorContains(t, err, "grant it INSERT on watchdog_outbox")
		mustExec(t, pool, "GRANT INSERT ON watchdog_outbox TO guest")
		cancelOne(t, openAt(t, asGuest, postgres.Config{Outbox: true}), "run-2")
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		require.NoError(t, s.Append(t.Context(), numbered(1)))
	})
}

// If a connection string has several hosts, an error says which one it is about.
func TestErrorsNameHost(t *testing.T) {
	direct := newDSN(t)
	p := startProxy(t, direct)
	at, err := url.Parse(p.DSN())
	require.NoError(t, err)
	closed := closedAddress(t)
	at.Host = closed + "," + at.Host
	at.User = url.UserPassword("postgres", canary)
	s := openAt(t, at.String(), postgres.Config{})
	names := func(err error) {
		t.Helper()
		refusesSecrets(t, err)
		require.ErrorContains(t, err, "server "+p.listener.Addr().String()+": ")
		require.NotContains(t, strings.ReplaceAll(err.Error(), " at "+closed+" or at ", ""), closed)
	}
	t.Run("of a statement", func(t *testing.T) {
		mustExec(t, hostPool(t, direct), "ALTER TABLE events RENAME TO hidden")
		names(s.Append(t.Context(), numbered(1)))
		names(s.Transact(t.Context(), counting("run-1")))
		names(s.Follow(t.Context(), "", func() {}, func(watchdog.Event) {}))
		_, err := s.Read(t.Context(), watchdog.AggregateType, "run-1")
		names(err)
		mustExec(t, hostPool(t, direct), "ALTER TABLE hidden RENAME TO events")
	})
	t.Run("of opening", func(t *testing.T) {
		_, err := postgres.Open(t.Context(), at.String()+"&default_transaction_read_only=on", postgres.Config{})
		names(err)
	})
	t.Run("of listening", func(t *testing.T) {
		ready, ended := make(chan struct{}), make(chan error, 1)
		go func() { ended <- s.Listen(t.Context(), func() { close(ready) }, func(string) {}) }()
		wait(t, ready)
		mustExec(t, hostPool(t, direct), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		names(wait(t, ended))
	})
	t.Run("of connecting", func(t *testing.T) {
		other := closedAddress(t)
		at.Host = closed + "," + other
		_, err := postgres.Open(t.Context(), at.String(), postgres.Config{})
		refusesSecrets(t, err)
		for _, host := range []string{closed, other} {
			require.Regexp(t, "connect: (.|\n)*"+host, err.Error())
		}
	})
}

// closedAddress returns an address where nobody listens.
func closedAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	return listener.Addr().String()
}

func TestNoPasswordInErrors(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, dsn := range map[string]string{
		"nobody listens":            "postgres://app:" + canary + "@127.0.0.1:1/db",
		"no socket":                 "host=" + filepath.Join(folder, "none") + " user=app password=" + canary + " dbname=db",
		"no such host":              "postgres://app:" + canary + "@no-such-host.invalid/db",
		"an invalid port":           "postgres://app:" + canary + "@127.0.0.1:port/db",
		"a slash in the password":   "postgres://app:" + canary + "/more@127.0.0.1/db",
		"a space in the password":   "host=127.0.0.1 password=" + canary + " " + canary + " user=app",
		"an unknown setting":        "postgres://app:" + canary + "@127.0.0.1/db?sslmode=" + canary,
		"an open quote":             "host=127.0.0.1 password='" + canary,
		"an invalid pool size":      "postgres://app:" + canary + "@127.0.0.1/db?pool_max_conns=" + canary,
		"a password as a parameter": "postgres://127.0.0.1:1/db?password=" + canary,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := postgres.Open(t.Context(), dsn, postgres.Config{})
			refusesSecrets(t, err)
		})
	}
	t.Run("the database does not exist", func(t *testing.T) {
		dsn := server(t).DSN("none") + "&password=" + url.QueryEscape(canary)
		_, err := postgres.Open(t.Context(), dsn, postgres.Config{})
		refusesSecrets(t, err)
		require.ErrorContains(t, err, "create the database")
	})
	t.Run("the payload is not in the server's error", func(t *testing.T) {
		dsn := newDSN(t)
		s := openAt(t, dsn, postgres.Config{})
		mustExec(t, hostPool(t, dsn), "ALTER TABLE events ADD CHECK (payload ->> 'n' = '1')")
		e := numbered(1)
		e.Payload = fmt.Appendf(nil, `{"n":%q}`, canary)
		refusesSecrets(t, s.Append(t.Context(), e))
	})
}

// refusesSecrets checks that nothing in the error contains the canary.
func refusesSecrets(tb testing.TB, err error) {
	tb.Helper()
	require.Error(tb, err)
	for _, text := range []string{err.Error(), fmt.Sprintf("%+v", err), fmt.Sprintf("%#v", err)} {
		require.NotContains(tb, text, canary)
	}
	require.NotErrorAs(tb, err, new(*pgconn.ConnectError), "it has the configuration, with the password")
	require.NotErrorAs(tb, err, new(*pgconn.ParseConfigError), "it has the connection string")
}

const canary = "canary-7c1e"

// seconds is what "within seconds" may take on a busy machine.
const seconds = 30 * time.Second

// Listen returns an error within seconds when its connection is half-open.
func TestListenHalfOpen(t *testing.T) {
	t.Parallel()
	p := startProxy(t, newDSN(t))
	s := openAt(t, p.DSN(), postgres.Config{})
	ready, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- s.Listen(t.Context(), func() { close(ready) }, func(string) {}) }()
	<-ready
	p.vanish()
	began := time.Now()
	require.ErrorContains(t, wait(t, ended), "the server did not answer")
	assert.Less(t, time.Since(began), seconds)
	t.Logf("noticed after %v", time.Since(began))
	p.forward()
	began = time.Now()
	require.NoError(t, s.Close())
	assert.Less(t, time.Since(began), seconds)
}

// A routed store listens through a proxy, and does all else directly.
type routed struct {
	*postgres.Store
	proxied *postgres.Store
	ready   chan struct{}
	told    chan string
}

func (r *routed) Listen(ctx context.Context, ready func(), told func(runID string)) error {
	return r.proxied.Listen(ctx, func() { ready(); r.ready <- struct{}{} }, func(runID string) {
		told(runID)
		r.told <- runID
	})
}

// While its listening connection is half-open a keeper notices within seconds that a run was cancelled, because it
// polls, and later it listens again.
func TestKeeperHalfOpen(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	p := startProxy(t, dsn)
	s := &routed{
		Store: openAt(t, dsn, postgres.Config{}), proxied: openAt(t, p.DSN(), postgres.Config{}),
		ready: make(chan struct{}, 10), told: make(chan string, 10),
	}
	keeper, err := session.NewKeeper(session.KeeperConfig{Store: s, Host: "host-1"})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { assert.NoError(t, keeper.Run(ctx)) })
	defer running.Wait()
	defer stop()
	guard := func(runID string) *watchdog.Watchdog {
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: runID, StartedAt: time.Now()},
			watchdog.Config{Store: s, Keeper: keeper})
		require.NoError(t, err)
		return wd
	}
	first, second := guard("run-1"), guard("run-2")
	defer first.Close()
	defer second.Close()
	wait(t, s.ready)
	p.vanish()
	cancelNow(t, s, "run-1")
	wait(t, first.Context().Done())
	assert.Empty(t, s.told, "nothing can have been told")
	p.forward()
	wait(t, s.ready)
	cancelNow(t, s, "run-2")
	assert.Equal(t, "run-2", wait(t, s.told))
	wait(t, second.Context().Done())
}

// cancelNow cancels a session as it stands.
func cancelNow(t *testing.T, s session.Store, runID string) {
	t.Helper()
	judged, err := s.Session(t.Context(), runID)
	require.NoError(t, err)
	request := cancelOf("cancel of "+runID, runID)
	request.Events[0].Timestamp = time.Now()
	request.Events[0].Payload = fmt.Appendf(nil, `{"reason":"idle_timeout","session_started_at":%q}`,
		judged.StartedAt.Format("2006-01-02T15:04:05.000000Z"))
	done, err := s.Cancel(t.Context(), judged, request)
	require.NoError(t, err)
	require.Equal(t, session.Done, done)
}

// wait receives within seconds.
func wait[T any](t *testing.T, c <-chan T) (received T) {
	t.Helper()
	select {
	case received = <-c:
	case <-time.After(seconds):
		require.Fail(t, "nothing came within seconds")
	}
	return received
}
