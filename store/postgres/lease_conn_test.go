package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// TestLeaseConnection protects a process from being taken for dead because others use its pool.
func TestLeaseConnection(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	other := hostPool(t, dsn)
	t.Run("a lease is begun and renewed while the host holds every connection", func(t *testing.T) {
		pool := hostPool(t, dsn, func(c *pgxpool.Config) { c.MaxConns = 1 })
		s := newStore(t, pool)
		held, err := pool.Acquire(t.Context())
		require.NoError(t, err)
		defer held.Release()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		l := begin(t, s, lease1)
		l.Beat++
		require.NoError(t, s.RenewLease(ctx, l))
	})
	t.Run("a connection that was lost is followed by another", func(t *testing.T) {
		s := openAt(t, dsn, postgres.Config{})
		l := begin(t, s, "lease-2")
		mustExec(t, other, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid()`)
		l.Beat++
		require.Error(t, s.RenewLease(t.Context(), l))
		require.NoError(t, s.RenewLease(t.Context(), l))
	})
	t.Run("where there is room for no more connections one of the pool is used", func(t *testing.T) {
		mustExec(t, other, "CREATE ROLE narrow LOGIN CONNECTION LIMIT 1", "GRANT ALL ON SCHEMA public TO narrow",
			"GRANT ALL ON ALL TABLES IN SCHEMA public TO narrow")
		t.Cleanup(func() { mustExec(t, other, "DROP OWNED BY narrow", "DROP ROLE narrow") })
		pool := hostPool(t, dsn, func(c *pgxpool.Config) {
			c.MaxConns, c.ConnConfig.User = 1, "narrow"
		})
		s := newStore(t, pool)
		l := begin(t, s, "lease-3")
		l.Beat++
		require.NoError(t, s.RenewLease(t.Context(), l))
	})
}

// TestSpareConnection protects live sessions while the host holds every connection of its pool.
func TestSpareConnection(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	pool := hostPool(t, dsn, func(c *pgxpool.Config) { c.MaxConns = 1 })
	s := newStore(t, pool)
	held, err := pool.Acquire(t.Context())
	require.NoError(t, err)
	defer held.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	begin(t, s, lease1)
	attachLeased(t, s, lease1, "run-1")
	var calls sync.WaitGroup
	for range 10 { // more than there are spare connections
		calls.Go(func() {
			skipped, err := s.Freshen(ctx, lease1, []session.Freshness{{RunID: "run-1", Attempt: 1, Activity: 1}})
			assert.NoError(t, err)
			assert.Empty(t, skipped.Gone)
		})
	}
	calls.Wait()
}
