package postgres_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
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
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestOutage(t *testing.T) {
	t.Parallel()
	own := pgtest.Start(t, pgtest.Options{})
	s := openAt(t, own.DSN(own.Database(t)), postgres.Config{})
	judged := attach(t, s, "run-1")
	for name, stop := range map[string]func(){
		"that is stopped":         func() { own.Stop(false) },
		"that is stopped at once": func() { own.Stop(true) },
		"that crashes":            own.Kill,
	} {
		t.Run(name+" makes calls fail, and later calls work when it is back", func(t *testing.T) {
			l := listen(t, s)
			stop()
			defer own.Restart()
			require.ErrorContains(t, <-l.ended, "event database", "Listen says that the connection is lost")
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
			require.Empty(t, page.Sessions)
			skipped, err := s.Freshen(t.Context(), lease1, []session.Freshness{{RunID: judged.RunID, Attempt: judged.Attempt}})
			require.NoError(t, err)
			require.Empty(t, skipped.Gone)
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
	tx := begun(t, pool, "LOCK TABLE watchdog_sessions, events")
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
	require.Equal(t, session.Active, after.Status)
}

// openWithLimit opens a store in a schema of its own, with a limit for its statements, and then locks its tables.
func openWithLimit(t *testing.T, dsn, setting, value string) *postgres.Store {
	t.Helper()
	admin := hostPool(t, dsn)
	require.NoError(t, openAt(t, dsn, postgres.Config{Schema: "limited"}).Close()) // creating it takes longer
	s, err := postgres.Open(t.Context(), dsn+"&"+setting+"="+value, postgres.Config{Schema: "limited"})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	begun(t, admin, "LOCK TABLE limited.watchdog_sessions, limited.events")
	return s
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
			"GRANT SELECT, INSERT ON watchdog_sessions TO guest")
		_, err := postgres.Open(t.Context(), asGuest, postgres.Config{})
		require.ErrorContains(t, err, "grant it UPDATE on watchdog_sessions, DELETE on watchdog_leases, "+
			"INSERT on watchdog_leases")
	})
	t.Run("uses the tables of another role after it was granted the rights", func(t *testing.T) {
		mustExec(t, pool, "GRANT UPDATE ON watchdog_sessions TO guest",
			"GRANT SELECT, INSERT, UPDATE, DELETE ON watchdog_leases TO guest",
			"GRANT SELECT, INSERT, DELETE ON watchdog_lease_ends TO guest")
		s := openAt(t, asGuest, postgres.Config{}).Patient()
		cancelsAtOnce(t, s)
		l := begin(t, s, lease1)
		attachLeased(t, s, lease1, "run-1")
		expired, left, err := s.ExpireLease(t.Context(), l)
		require.NoError(t, err)
		require.True(t, expired)
		require.Zero(t, left)
		require.NoError(t, s.Append(t.Context(), numbered(1)))
		require.NoError(t, s.Append(t.Context(), numbered(1)))
	})
}

// If a connection string has several hosts, an error says which one it is about.
func TestErrorsNameHost(t *testing.T) {
	direct := newDSN(t)
	database, open := throughTCP(t, direct)
	closed := closedAddress(t)
	at := &url.URL{
		Scheme: "postgres", User: url.UserPassword("postgres", canary), Host: closed + "," + open, Path: database,
		RawQuery: "sslmode=disable",
	}
	s, only := openAt(t, at.String(), postgres.Config{}), openAt(t, direct, postgres.Config{})
	names := func(err error) {
		t.Helper()
		refusesSecrets(t, err)
		require.ErrorContains(t, err, "server "+open+": ")
		require.NotContains(t, strings.ReplaceAll(err.Error(), " at "+closed+" or at ", ""), closed)
	}
	t.Run("of a statement", func(t *testing.T) {
		mustExec(t, hostPool(t, direct), "ALTER TABLE events RENAME TO hidden")
		names(s.Append(t.Context(), numbered(1)))
		names(s.Transact(t.Context(), counting("run-1")))
		_, err := s.Read(t.Context(), event.AggregateType, "run-1")
		names(err)
		require.NotContains(t, only.Append(t.Context(), numbered(1)).Error(), "server ", "there is one host")
		mustExec(t, hostPool(t, direct), "ALTER TABLE hidden RENAME TO events")
	})
	t.Run("of opening", func(t *testing.T) {
		_, err := postgres.Open(t.Context(), at.String()+"&default_transaction_read_only=on", postgres.Config{})
		names(err)
	})
	t.Run("of listening", func(t *testing.T) {
		l := listen(t, s)
		mustExec(t, hostPool(t, direct), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		names(wait(t, l.ended))
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

// throughTCP returns the database of a connection string, and an address through which its server can be reached.
func throughTCP(t *testing.T, dsn string) (database, open string) {
	t.Helper()
	config, err := pgconn.ParseConfig(dsn)
	require.NoError(t, err)
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var all sync.WaitGroup
	pass := func(to, from net.Conn) {
		defer to.Close()
		_, _ = io.Copy(to, from) // until one of them is closed
	}
	all.Go(func() {
		for client, err := listener.Accept(); err == nil; client, err = listener.Accept() {
			server, err := net.Dial(network, address)
			if assert.NoError(t, err) {
				all.Go(func() { pass(server, client) })
				all.Go(func() { pass(client, server) })
			}
		}
	})
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
	return config.Database, listener.Addr().String()
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

// startPair starts a primary with a synchronous standby, and returns that and a connection string that leads to
// whichever accepts writes.
func startPair(t *testing.T) (standby *pgtest.Standby, dsn string) {
	t.Helper()
	primary := pgtest.Start(t, pgtest.Options{})
	standby = pgtest.StartStandby(t, primary, pgtest.StandbyOptions{Synchronous: true})
	return standby, pgtest.DSN(primary.Database(t), time.Second, primary, standby.Server)
}

// TestSweepStandbyAway: while the synchronous standby is away, no cancel of a sweeper is answered, though the primary
// carries it out. Each is counted once all the same, and has its alert, its resume and its end event once.
func TestSweepStandbyAway(t *testing.T) {
	t.Parallel()
	const stalled = 3
	standby, dsn := startPair(t)
	store, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	for i := range stalled {
		_, _, err := store.Attach(t.Context(), session.Session{RunID: runNumber(i), StartedAt: noon, Host: "dead"})
		require.NoError(t, err)
	}
	mustExec(t, pool, "UPDATE watchdog_sessions SET last_event_at = now() - interval '1 hour'")

	alerts, keys := 0, map[string]string{} // of starts, which are repeated until the run attaches
	sweeper, err := sweep.New(store, store, sweep.Config{
		Interval: 100 * time.Millisecond, StalledThreshold: threshold, MinAge: watchdog.None, RecordTimeout: time.Second,
		StopTimeout: time.Second,
		Alert:       sweep.Alert{Within: time.Nanosecond, Func: func(context.Context, int) { alerts++ }}, // of each cancel
		Resume: sweep.ResumePolicy{Max: 1, Tries: 2, Start: func(_ context.Context, s session.Session) error {
			if before, again := keys[s.RunID]; again {
				require.Equal(t, before, s.Start.Key)
			}
			keys[s.RunID] = s.Start.Key
			return nil
		}},
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	require.NoError(t, standby.Disconnect(t.Context()))
	began := time.Now()
	_, _ = sweeper.Sweep(t.Context()) // what it says depends on when the primary gives up waiting
	require.GreaterOrEqual(t, time.Since(began), stalled*time.Second, "each cancel waited for the standby")
	require.NoError(t, standby.Reconnect(t.Context()))
	allCancelled := func() bool {
		_, err := sweeper.Sweep(t.Context())
		left := texts(t, pool, "SELECT run_id FROM watchdog_sessions WHERE start_due IS NOT NULL") // nobody attaches
		return err == nil && sweeper.Stats().Cancelled >= stalled && len(left) == 0
	}
	for began := time.Now(); !allCancelled(); time.Sleep(100 * time.Millisecond) { // the pauses of those that failed
		require.Less(t, time.Since(began), seconds)
	}
	for range 3 {
		p, err := sweeper.Sweep(t.Context())
		require.NoError(t, err)
		require.Empty(t, p.Cases)
	}
	require.Equal(t, stalled, sweeper.Stats().Cancelled)
	require.Equal(t, stalled, alerts)
	for i := range stalled {
		row := sessionOf(t, store, runNumber(i))
		require.Equal(t, session.Cancelled, row.Status)
		require.Equal(t, watchdog.SessionIdleTimeout, row.Reason)
		require.Equal(t, 1, row.Resumes)
		require.NotEmpty(t, keys[runNumber(i)])
		require.Equal(t, []string{"1"}, texts(t, pool, fmt.Sprintf(`SELECT count(*)::text FROM events
			WHERE aggregate_id = '%s' AND event_type = '%s'`, runNumber(i), event.Cancel)))
	}
}

// While the synchronous standby is away no event is acknowledged, not even one that is appended again: the primary has
// stored it, and the standby, which may be promoted, has not.
func TestStandbyAway(t *testing.T) {
	t.Parallel()
	standby, dsn := startPair(t)
	s := openAt(t, dsn, postgres.Config{}) // it makes the tables
	require.NoError(t, standby.Disconnect(t.Context()))
	stored := 0
	for name, write := range map[string]func(ctx context.Context) error{
		"appended":   func(ctx context.Context) error { return s.Append(ctx, numbered(1)) },
		"transacted": func(ctx context.Context) error { return s.Transact(ctx, appending("run-1", numbered(2))) },
	} {
		stored++
		t.Run("an event is not acknowledged that is "+name, func(t *testing.T) {
			for tries := 0; tries < 3 || len(read(t, s)) < stored; tries++ { // a busy machine may not come to the commit
				require.Less(t, tries, 100)
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				require.ErrorIs(t, write(ctx), context.DeadlineExceeded)
				cancel()
			}
		})
	}
	require.Len(t, read(t, s), 2, "the primary has stored them")
	require.NoError(t, standby.Reconnect(t.Context()))
	require.NoError(t, s.Append(t.Context(), numbered(1)))
}
