package postgres_test

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

func TestOutage(t *testing.T) {
	own := pgtest.Start(t, pgtest.Options{})
	s := openAt(t, own.DSN(own.Database(t)), postgres.Config{})
	judged := attachRow(t, s, "run-1")
	for name, stop := range map[string]func(){
		"that is stopped":         func() { own.Stop(false) },
		"that is stopped at once": func() { own.Stop(true) },
		"that crashes":            own.Kill,
	} {
		t.Run(name+" makes calls fail, and those work again that come when it is back", func(t *testing.T) {
			ready, ended := make(chan struct{}), make(chan error, 1)
			go func() { ended <- s.Listen(t.Context(), func() { close(ready) }, func(string) {}) }()
			select {
			case <-ready:
			case err := <-ended:
				require.NoError(t, err)
			}
			stop()
			defer own.Restart()
			require.ErrorContains(t, <-ended, "event database", "whoever listens is told that the connection is lost")
			for call, err := range eachCall(t.Context(), s) {
				require.ErrorContains(t, err, "event database", call)
				require.Regexp(t, "no server listens there|the connection broke", err.Error(), call)
			}
			_, err := postgres.Open(t.Context(), own.DSN("postgres"), postgres.Config{})
			require.ErrorContains(t, err, "no server listens there")
			require.NoError(t, own.Restart())
			page, err := s.Stalled(t.Context(), session.Query{Threshold: threshold, Limit: 1})
			require.NoError(t, err)
			assert.Empty(t, page.Sessions)
			gone, err := s.Freshen(t.Context(), []session.Fresh{{RunID: judged.RunID, Attempt: judged.Attempt}})
			require.NoError(t, err)
			assert.Empty(t, gone)
		})
	}
}

func TestTooManyConnections(t *testing.T) {
	own := pgtest.Start(t, pgtest.Options{Settings: []string{"max_connections=4", "superuser_reserved_connections=0", "max_wal_senders=0", "autovacuum=off"}})
	dsn := own.DSN(own.Database(t))
	s := openAt(t, dsn, postgres.Config{})
	hog := hostPool(t, dsn+"&pool_max_conns=4")
	for range 3 {
		conn, err := hog.Acquire(t.Context())
		require.NoError(t, err)
		t.Cleanup(conn.Release)
	}
	_, err := postgres.Open(t.Context(), dsn, postgres.Config{})
	require.ErrorContains(t, err, "max_connections")
	require.ErrorContains(t, s.Listen(t.Context(), func() {}, func(string) {}), "max_connections")
	require.NoError(t, s.Append(t.Context(), numbered(1)), "the connection of the pool is there")
}

func TestBlockedServer(t *testing.T) {
	dsn := newDSN(t)
	s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	judged := attachRow(t, s, "run-1")
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), "LOCK TABLE watchdog_sessions, events")
	require.NoError(t, err)
	t.Run("is given up when the context ends", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		for call, err := range eachCall(ctx, s) {
			if call != "Listen" {
				require.ErrorIs(t, err, context.DeadlineExceeded, call)
			}
		}
	})
	t.Run("is given up when the statement's time is over", func(t *testing.T) {
		hurried := newHurried(t, dsn, "statement_timeout", "50")
		_, err := hurried.Cancel(t.Context(), judged, cancelOf("c", judged.RunID))
		require.ErrorContains(t, err, "statement_timeout")
	})
	t.Run("is given up when the wait for a lock is over", func(t *testing.T) {
		hurried := newHurried(t, dsn, "lock_timeout", "50")
		require.ErrorContains(t, hurried.Append(t.Context(), numbered(1)), "lock_timeout")
	})
	require.NoError(t, tx.Rollback(t.Context()))
	after, err := s.Session(t.Context(), judged.RunID)
	require.NoError(t, err)
	assert.Equal(t, session.Active, after.Status)
}

// newHurried opens a store whose connections are then given a limit.
func newHurried(t *testing.T, dsn, setting, value string) *postgres.Store {
	t.Helper()
	admin := hostPool(t, dsn)
	// Opening looks at the tables, which are locked: the limit comes with the role's next connections, and the store was opened by another.
	s, err := postgres.Open(t.Context(), dsn+"&"+setting+"="+value, postgres.Config{Schema: "hurried"})
	require.NoError(t, err)
	t.Cleanup(func() { s.Close() })
	tx, err := admin.Begin(t.Context())
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), "LOCK TABLE hurried.watchdog_sessions, hurried.events")
	require.NoError(t, err)
	t.Cleanup(func() { _ = tx.Rollback(context.Background()) })
	return s
}

func TestReadOnlyDatabase(t *testing.T) {
	dsn := newDSN(t)
	_, err := postgres.Open(t.Context(), dsn+"&default_transaction_read_only=on", postgres.Config{})
	require.ErrorContains(t, err, "read-only")
	assert.Empty(t, texts(t, hostPool(t, dsn), everything))
}

func TestMissingRights(t *testing.T) {
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
		mustExec(t, pool, "GRANT SELECT ON watchdog_schema TO guest", "GRANT SELECT, INSERT ON events TO guest", "GRANT SELECT, INSERT ON watchdog_sessions TO guest")
		_, err := postgres.Open(t.Context(), asGuest, postgres.Config{})
		require.ErrorContains(t, err, "grant it UPDATE on watchdog_sessions")
	})
	t.Run("uses what another role has made, once it was granted that", func(t *testing.T) {
		mustExec(t, pool, "GRANT UPDATE ON watchdog_sessions TO guest")
		s := openAt(t, asGuest, postgres.Config{})
		cancelsAtOnce(t, s)
	})
}

func TestNoPasswordInErrors(t *testing.T) {
	folder := t.TempDir()
	for name, dsn := range map[string]string{
		"nobody listens":            "postgres://app:" + canary + "@127.0.0.1:1/db",
		"no socket":                 "host=" + filepath.Join(folder, "none") + " user=app password=" + canary + " dbname=db",
		"no such host":              "postgres://app:" + canary + "@no-such-host.invalid/db",
		"the port is none":          "postgres://app:" + canary + "@127.0.0.1:port/db",
		"a slash in the password":   "postgres://app:" + canary + "/more@127.0.0.1/db",
		"a space in the password":   "host=127.0.0.1 password=" + canary + " " + canary + " user=app",
		"an unknown setting":        "postgres://app:" + canary + "@127.0.0.1/db?sslmode=" + canary,
		"no end of the quotes":      "host=127.0.0.1 password='" + canary,
		"an odd pool":               "postgres://app:" + canary + "@127.0.0.1/db?pool_max_conns=" + canary,
		"a password as a parameter": "postgres://127.0.0.1:1/db?password=" + canary,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := postgres.Open(t.Context(), dsn, postgres.Config{})
			refusesSecrets(t, err)
		})
	}
	t.Run("the database is not there", func(t *testing.T) {
		dsn := server(t).DSN("none") + "&password=" + url.QueryEscape(canary)
		_, err := postgres.Open(t.Context(), dsn, postgres.Config{})
		refusesSecrets(t, err)
		require.ErrorContains(t, err, "create the database")
	})
	t.Run("the payload is none of the server's business", func(t *testing.T) {
		dsn := newDSN(t)
		s := openAt(t, dsn, postgres.Config{})
		mustExec(t, hostPool(t, dsn), "ALTER TABLE events ADD CHECK (payload ->> 'n' = '1')")
		e := numbered(1)
		e.Payload = fmt.Appendf(nil, `{"n":%q}`, canary)
		refusesSecrets(t, s.Append(t.Context(), e))
	})
}
