package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
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
	s, stranger := openPatient(t)
	for _, id := range []string{"lease-1", "lease-2", "lease-3"} {
		begin(t, s, id)
	}
	tx := begun(t, stranger, "SELECT FROM watchdog_leases WHERE id <> 'lease-1' FOR KEY SHARE")
	require.NoError(t, second(tx.Exec(t.Context(), "UPDATE watchdog_leases SET beat = 7 WHERE id = 'lease-2'")))
	all, err := s.ObserveLeases(shortly(t), []string{"lease-1", "lease-2", "lease-9"})
	require.NoError(t, err)
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
		require.ErrorIs(t, third(s.ExpireLease(shortly(t), leaseOf("lease-1"))), session.ErrLocked)
	})
}

// TestExpireWhileAttaching checks that a row is in a lease that lives, or in none, whichever is first.
func TestExpireWhileAttaching(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, pool := openAt(t, dsn+"&pool_max_conns=8", postgres.Config{}).Patient(), hostPool(t, dsn)
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

// lock locks the row of a run, as another program could. The end of its transaction is returned.
func lock(t *testing.T, pool *pgxpool.Pool, runID string) (unlock func()) {
	t.Helper()
	tx := begun(t, pool, `SELECT FROM watchdog_sessions WHERE run_id = $1 FOR UPDATE`, runID)
	return func() { require.NoError(t, tx.Rollback(context.WithoutCancel(t.Context()))) }
}

func attachMany(t *testing.T, s *postgres.Store, n int) (fresh []session.Freshness, ends []session.Ending) {
	t.Helper()
	begin(t, s, lease1)
	for i := range n {
		attach(t, s, runNumber(i))
		fresh = append(fresh, session.Freshness{RunID: runNumber(i), Attempt: 1})
		ends = append(ends, session.Ending{RunID: runNumber(i), Attempt: 1, Status: session.Finished})
	}
	return fresh, ends
}

func runNumber(n int) string { return fmt.Sprintf("run-%04d", n) }

// TestLockedRow checks that a row which a stranger has locked holds up no other, and is not taken for one that is gone.
func TestLockedRow(t *testing.T) {
	ctx, dsn := shortly(t), newDSN(t)
	impatient, stranger := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	s := openAt(t, dsn, postgres.Config{}).Patient() // a call of it that waits for the stranger fails
	fresh, ends := attachMany(t, s, 50)
	unlock := lock(t, stranger, runNumber(20))

	skipped, err := s.Freshen(ctx, lease1, fresh)
	require.NoError(t, err)
	require.Equal(t, session.Skipped{Locked: []string{runNumber(20)}, Failed: map[string]error{}}, skipped)
	skipped, err = s.Freshen(ctx, lease1, append(fresh[:50:50], session.Freshness{RunID: runNumber(20), Attempt: 7}))
	require.NoError(t, err)
	require.Equal(t, []string{runNumber(20)}, skipped.Gone, "another attempt of a locked row")
	skipped, err = s.End(ctx, ends[:40])
	require.NoError(t, err)
	require.Equal(t, session.Skipped{Locked: []string{runNumber(20)}, Failed: map[string]error{}}, skipped)
	require.Equal(t, []string{runNumber(20)}, texts(t, stranger,
		"SELECT run_id FROM watchdog_sessions WHERE status = 'active' AND lease IS NULL"))

	judged, err := s.Session(t.Context(), runNumber(20))
	require.NoError(t, err)
	outcome, err := s.Cancel(ctx, judged, cancelOf("c", runNumber(20)))
	require.ErrorIs(t, err, session.ErrLocked)
	require.Empty(t, outcome)
	require.Empty(t, read(t, s))
	for range 8 { // the first call of a connection prepares the statement
		_, err = s.Freshen(ctx, lease1, fresh)
		require.NoError(t, err)
	}

	began := time.Now()
	skipped, err = impatient.Freshen(ctx, lease1, fresh[20:21])
	require.NoError(t, err)
	require.Equal(t, []string{runNumber(20)}, skipped.Locked)
	require.GreaterOrEqual(t, time.Since(began), session.LockWait, "a row alone is waited for")
	skipped, err = impatient.End(ctx, ends[20:21])
	require.NoError(t, err)
	require.Equal(t, []string{runNumber(20)}, skipped.Locked)

	waited := make(chan session.Skipped)
	go func() {
		skipped, err := s.Freshen(ctx, lease1, fresh[20:21])
		assert.NoError(t, err)
		waited <- skipped
	}()
	waitForLock(t, stranger)
	unlock()
	require.Empty(t, (<-waited).Locked, "the lock was released meanwhile")
	skipped, err = s.End(ctx, ends[20:21])
	require.NoError(t, err)
	require.Empty(t, skipped.Locked)
	require.Equal(t, session.Finished, sessionOf(t, s, runNumber(20)).Status)
}

// TestReferencedRow checks that a row is written while a transaction of the host's refers to it by a foreign key.
func TestReferencedRow(t *testing.T) {
	t.Parallel()
	s, host := openNew(t)
	fresh, ends := attachMany(t, s, 3)
	mustExec(t, host, "CREATE TABLE notes (run_id text REFERENCES watchdog_sessions)")
	begun(t, host, "INSERT INTO notes VALUES ($1), ($2), ($3)", runNumber(0), runNumber(1), runNumber(2))
	for range 2 {
		skipped, err := s.Freshen(t.Context(), lease1, fresh)
		require.NoError(t, err)
		require.Empty(t, skipped.Locked)
	}
	outcome, err := s.Cancel(t.Context(), sessionOf(t, s, runNumber(0)), cancelOf("c", runNumber(0)))
	require.NoError(t, err)
	require.Equal(t, session.Done, outcome)
	skipped, err := s.End(t.Context(), ends[1:])
	require.NoError(t, err)
	require.Empty(t, skipped.Locked)
}

func sessionOf(t *testing.T, s *postgres.Store, runID string) session.Session {
	t.Helper()
	found, err := s.Session(t.Context(), runID)
	require.NoError(t, err)
	return found
}

// TestRefusedTable checks that a table which refuses every row is an error, after few statements.
func TestRefusedTable(t *testing.T) {
	t.Parallel()
	s, pool := openNew(t)
	fresh, _ := attachMany(t, s, 50)
	mustExec(t, pool, `ALTER TABLE watchdog_sessions ADD CONSTRAINT nothing CHECK (attempt < 0) NOT VALID`)
	skipped, err := s.Freshen(t.Context(), lease1, fresh[:10])
	require.NoError(t, err)
	require.Len(t, skipped.Failed, 10)
	_, err = s.Freshen(t.Context(), lease1, fresh)
	require.ErrorContains(t, err, "more than 16 rows are refused, such as run run-00")
}

// TestAttachLocked: a run begins though another transaction has locked its row for longer than one write waits.
func TestAttachLocked(t *testing.T) {
	t.Parallel()
	s, stranger := openNew(t)
	attach(t, s, "run-1")
	unlock := lock(t, stranger, "run-1")
	_, _, err := s.Attach(t.Context(), session.Session{RunID: "run-1", StartedAt: noon})
	require.ErrorIs(t, err, session.ErrLocked)
	require.ErrorContains(t, err, "end it, or try again")
	keeper := func(limit time.Duration) *session.Keeper {
		k, err := session.NewKeeper(session.KeeperConfig{Store: s, RecordTimeout: limit})
		require.NoError(t, err)
		ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
		ended := make(chan error, 1)
		go func() { ended <- k.Run(ctx) }()
		t.Cleanup(func() { stop(); assert.NoError(t, <-ended) })
		return k
	}
	begin := func(k *session.Keeper) (*watchdog.Watchdog, error) {
		return watchdog.New(t.Context(), watchdog.Run{ID: "run-1", StartedAt: noon}, watchdog.Config{
			Store: s, Keeper: k, Budget: watchdog.Budget{WallClock: watchdog.NoLimit}, RecordTimeout: time.Minute,
			Logger: slog.New(slog.DiscardHandler),
		})
	}
	require.ErrorIs(t, second(begin(keeper(3*session.LockWait))), session.ErrLocked)
	freed := time.AfterFunc(3*session.LockWait, unlock)
	defer freed.Stop()
	wd, err := begin(keeper(time.Minute))
	require.NoError(t, err)
	require.NoError(t, wd.Close())
}

// TestLockedTable checks that no call waits for a table that a stranger has locked, whether its statement is new to the
// connection or not, and that the connection of the host keeps its own limit.
func TestLockedTable(t *testing.T) {
	t.Parallel()
	const parts = 4 // at once: each call waits for a while
	for mode, name := range map[pgx.QueryExecMode]string{
		pgx.QueryExecModeCacheStatement: "in one round trip", pgx.QueryExecModeSimpleProtocol: "in several",
	} {
		for part := range parts {
			t.Run(fmt.Sprintf("%s, part %d", name, part), func(t *testing.T) {
				t.Parallel()
				refusesLocked(t, mode, func(i int) bool { return i%parts == part })
			})
		}
	}
}

// refusesLocked makes some of the calls while the tables are locked, when they are not, and while they are again.
func refusesLocked(t *testing.T, mode pgx.QueryExecMode, chosen func(i int) bool) {
	t.Helper()
	dsn := newDSN(t)
	stranger := hostPool(t, dsn)
	host := hostPool(t, dsn, func(c *pgxpool.Config) {
		c.MaxConns, c.ConnConfig.DefaultQueryExecMode = 1, mode
		c.ConnConfig.RuntimeParams["lock_timeout"] = "1h"
	})
	calls := tableCalls(t.Context(), newStore(t, host))
	for i, name := range slices.Sorted(maps.Keys(calls)) {
		if !chosen(i) {
			delete(calls, name)
		}
	}
	refusesAll := func(when string) {
		tx := begun(t, stranger, `LOCK TABLE watchdog_sessions, watchdog_leases, events,
			watchdog_lease_ends`)
		for name, call := range calls {
			began := time.Now()
			err := call()
			require.ErrorContains(t, err, "lock_timeout allows", "%s, %s", name, when)
			require.Less(t, time.Since(began), seconds, "%s, %s", name, when)
			require.Equal(t, []string{"1h"}, texts(t, host, "SHOW lock_timeout"), "%s, %s", name, when)
		}
		require.NoError(t, tx.Rollback(t.Context()))
	}
	refusesAll("new to the connection")
	for name, call := range calls {
		err := call()
		if !errors.Is(err, session.ErrLeaseExpired) && !errors.Is(err, session.ErrNotFound) {
			require.NoError(t, err, name)
		}
		require.Equal(t, []string{"1h"}, texts(t, host, "SHOW lock_timeout"), name)
	}
	refusesAll("known to the connection")
}

// TestLockedLease checks that what needs a lease does not wait for long for a transaction that has locked its row.
func TestLockedLease(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	host := hostPool(t, dsn, func(c *pgxpool.Config) { c.MaxConns = 1 })
	s, stranger := newStore(t, host), hostPool(t, dsn)
	l := begin(t, s, lease1)
	attachLeased(t, s, lease1, "run-1")
	begun(t, stranger, "SELECT FROM watchdog_leases FOR UPDATE")
	for name, call := range map[string]func() error{
		"RenewLease": func() error { return s.RenewLease(t.Context(), l) },
		"Attach": func() error {
			_, _, err := s.Attach(t.Context(), session.Session{RunID: "run-2", StartedAt: noon, Lease: lease1})
			return err
		},
		"Freshen": func() error {
			return second(s.Freshen(t.Context(), lease1, []session.Freshness{{RunID: "run-1", Attempt: 1}, {RunID: "run-9"}}))
		},
	} {
		began := time.Now()
		require.ErrorContains(t, call(), "lock_timeout allows", name)
		require.Less(t, time.Since(began), seconds, name)
	}
	require.ErrorIs(t, third(s.ExpireLease(t.Context(), l)), session.ErrLocked)
}
