package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

const lease1 = "lease-1"

func leaseOf(id string) session.Lease {
	return session.Lease{ID: id, Host: "host-1", Promise: 10 * time.Second, Beat: 1}
}

// begin begins a lease, or finds it.
func begin(tb testing.TB, s *postgres.Store, id string) session.Lease {
	tb.Helper()
	require.NoError(tb, s.BeginLease(tb.Context(), leaseOf(id)))
	return leaseOf(id)
}

func attachLeased(tb testing.TB, s *postgres.Store, lease, runID string) session.Session {
	tb.Helper()
	_, after, err := s.Attach(tb.Context(), session.Session{RunID: runID, StartedAt: noon, Host: "host-1", Lease: lease})
	require.NoError(tb, err)
	return after
}

func cancelOne(t *testing.T, s *postgres.Store, runID string) {
	t.Helper()
	outcome, err := s.Cancel(t.Context(), attach(t, s, runID), cancelOf("cancel of "+runID, runID))
	require.NoError(t, err)
	require.Equal(t, session.Done, outcome)
}

// TestHOT checks that the updates that a busy fleet makes all the time write to no index. The first ones move rows to
// pages with room. An open transaction in any database has the server keep old versions, for which a page must have
// room, too: so no test runs beside this one.
func TestHOT(t *testing.T) {
	dsn := newDSN(t)
	first, s, pool := openAt(t, dsn, postgres.Config{}), openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	begin(t, first, lease1)
	for i := range 100 {
		attachLeased(t, first, lease1, runNumber(i))
	}
	busy(t, first, 0, 2)
	require.NoError(t, first.Close()) // the server counts what a connection did when that ends
	require.Eventually(t, func() bool { all, _ := updates(t, pool, "watchdog_sessions"); return all >= 200 }, seconds, 20*time.Millisecond)
	mustExec(t, pool, "SELECT pg_stat_reset()")
	busy(t, s, 2, 12)
	require.NoError(t, s.Close())
	for table, want := range map[string]int{"watchdog_sessions": 1000, "watchdog_leases": 200} {
		var all, hot int
		require.Eventually(t, func() bool { all, hot = updates(t, pool, table); return all >= want }, seconds, 20*time.Millisecond)
		require.GreaterOrEqual(t, hot, want*95/100, "of %d updates of %s", all, table)
	}
}

// busy freshens the rows of a hundred runs in each round, and renews and observes their lease ten times.
func busy(t *testing.T, s *postgres.Store, from, to int) {
	t.Helper()
	l := leaseOf(lease1)
	for round := from; round < to; round++ {
		var fresh []session.Freshness
		for i := range 100 {
			fresh = append(fresh, session.Freshness{
				RunID: runNumber(i), Attempt: 1, Activity: time.Duration(round), State: fmt.Appendf(nil, `{"warned":%d}`, round),
			})
		}
		skipped, err := s.Freshen(t.Context(), lease1, fresh)
		require.NoError(t, err)
		require.Empty(t, skipped.Gone)
		for i := range 10 {
			l.Beat = int64(10*round + i + 2)
			require.NoError(t, s.RenewLease(t.Context(), l))
			_, err = s.ObserveLeases(t.Context(), []string{lease1})
			require.NoError(t, err)
		}
	}
}

// updates returns how many rows of a table were updated, and how many of them without writing to an index.
func updates(t *testing.T, pool *pgxpool.Pool, table string) (all, hot int) {
	t.Helper()
	require.NoError(t, pool.QueryRow(t.Context(),
		`SELECT n_tup_upd, n_tup_hot_upd FROM pg_stat_user_tables WHERE relname = $1`, table).Scan(&all, &hot))
	return all, hot
}

// TestObserveLeases checks that what is locked is not observed, and that the beat of what is observed is the newest.
func TestObserveLeases(t *testing.T) {
	t.Parallel()
	s, stranger := openNew(t, postgres.Config{})
	for _, id := range []string{"lease-1", "lease-2", "lease-3"} {
		begin(t, s, id)
	}
	tx := begun(t, stranger, "SELECT FROM watchdog_leases WHERE id <> 'lease-1' FOR KEY SHARE")
	_, err := tx.Exec(t.Context(), "UPDATE watchdog_leases SET beat = 7 WHERE id = 'lease-2'")
	require.NoError(t, err)
	began := time.Now()
	all, err := s.ObserveLeases(t.Context(), []string{"lease-1", "lease-2", "lease-9"})
	require.NoError(t, err)
	require.Less(t, time.Since(began), 8*promptly)
	require.Len(t, all, 3)
	for i, l := range all {
		require.Equal(t, fmt.Sprint("lease-", i+1), l.ID)
		require.Equal(t, i == 1, l.Locked, "a lock of a foreign key is none")
		require.EqualValues(t, 1, l.Beat)
		require.WithinDuration(t, time.Now(), l.RenewedAt, time.Hour)
	}
	require.NoError(t, tx.Commit(t.Context()))
	all, err = s.ObserveLeases(t.Context(), []string{"lease-2"})
	require.NoError(t, err)
	require.EqualValues(t, 7, all[1].Beat)
	require.Equal(t, []string{"1", "1", "0"}, texts(t, stranger, "SELECT looks::text FROM watchdog_leases ORDER BY id"))
	t.Run("of which one is locked expires none", func(t *testing.T) {
		begun(t, stranger, "SELECT FROM watchdog_leases FOR KEY SHARE") // as an attach
		_, _, err := s.ExpireLease(t.Context(), leaseOf("lease-1"))
		require.ErrorIs(t, err, session.ErrLocked)
	})
}

// TestExpireWhileAttaching checks that a row is in a lease that lives, or in none, whichever is first.
func TestExpireWhileAttaching(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, pool := openAt(t, dsn+"&pool_max_conns=8", postgres.Config{}), hostPool(t, dsn)
	attached, late := 0, 0
	for round := range 60 {
		l := begin(t, s, fmt.Sprint("lease-", round))
		_, _, err := s.Attach(t.Context(), session.Session{RunID: fmt.Sprint("old-", round), StartedAt: noon})
		require.NoError(t, err)
		var all sync.WaitGroup
		var mu sync.Mutex
		count := func(err error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				attached++
			case assert.ErrorIs(t, err, session.ErrLeaseExpired):
				late++
			}
		}
		for i := range 5 {
			all.Go(func() {
				for j := range 4 {
					run := session.Session{RunID: fmt.Sprint(round, "-", i, "-", j), StartedAt: noon, Lease: l.ID}
					_, _, err := s.Attach(t.Context(), run)
					count(err)
				}
			})
		}
		all.Go(func() {
			_, err := s.Freshen(t.Context(), l.ID, []session.Freshness{{RunID: fmt.Sprint("old-", round), Attempt: 1}})
			count(err)
		})
		all.Go(func() { expire(t, s, l) })
		all.Wait()
	}
	require.Empty(t, texts(t, pool, "SELECT run_id FROM watchdog_sessions WHERE lease IS NOT NULL"))
	require.Empty(t, texts(t, pool, "SELECT id FROM watchdog_leases"))
	require.Positive(t, late)
	require.Positive(t, attached)
	t.Log(attached, "were before the expiry,", late, "after it")
}

// expire expires a lease as soon as no other transaction has it.
func expire(t *testing.T, s *postgres.Store, l session.Lease) {
	for began := time.Now(); time.Since(began) < 30*time.Second; {
		expired, left, err := s.ExpireLease(t.Context(), l)
		switch {
		case err == nil && expired && left == 0:
			return
		case err != nil && !errors.Is(err, session.ErrLocked):
			assert.NoError(t, err)
			return
		}
	}
	assert.Fail(t, "the lease does not expire", l.ID)
}

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
