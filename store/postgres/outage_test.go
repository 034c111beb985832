package postgres_test

import (
	"context"
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
