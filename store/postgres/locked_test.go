package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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

// promptly is far less than a call would take that waits for a lock.
const promptly = session.LockWait / 2

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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a call that waits for the stranger fails
	defer cancel()
	s, stranger := openNew(t, postgres.Config{})
	fresh, ends := attachMany(t, s, 50)
	unlock := lock(t, stranger, runNumber(20))

	began := time.Now()
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
	require.Less(t, time.Since(began), 8*promptly, "nothing waited")
	began = time.Now()
	for range 8 {
		_, err = s.Freshen(ctx, lease1, fresh)
		require.NoError(t, err)
	}
	require.Less(t, time.Since(began), 8*session.LockWait, "no batch waited")

	began = time.Now()
	skipped, err = s.Freshen(ctx, lease1, fresh[20:21])
	require.NoError(t, err)
	require.Equal(t, []string{runNumber(20)}, skipped.Locked)
	require.GreaterOrEqual(t, time.Since(began), session.LockWait, "a row alone is waited for")
	skipped, err = s.End(ctx, ends[20:21])
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
	s, host := openNew(t, postgres.Config{})
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
	s, pool := openNew(t, postgres.Config{})
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
	s, stranger := openNew(t, postgres.Config{})
	attach(t, s, "run-1")
	unlock := lock(t, stranger, "run-1")
	_, _, err := s.Attach(t.Context(), session.Session{RunID: "run-1", StartedAt: noon})
	require.ErrorIs(t, err, session.ErrLocked)
	require.ErrorContains(t, err, "end it, or try again")
	keeper := func(limit time.Duration) *session.Keeper {
		k, err := session.NewKeeper(session.KeeperConfig{Store: s, RecordTimeout: limit})
		require.NoError(t, err)
		return k
	}
	begin := func(k *session.Keeper) (*watchdog.Watchdog, error) {
		return watchdog.New(t.Context(), watchdog.Run{ID: "run-1", StartedAt: noon}, watchdog.Config{
			Store: s, Keeper: k, Budget: watchdog.Budget{WallClock: watchdog.NoLimit}, RecordTimeout: time.Minute,
			Logger: slog.New(slog.DiscardHandler),
		})
	}
	_, err = begin(keeper(3 * session.LockWait))
	require.ErrorIs(t, err, session.ErrLocked)
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
	calls := tableCalls(t.Context(), newStoreWith(t, host, withOutbox))
	for i, name := range slices.Sorted(maps.Keys(calls)) {
		if !chosen(i) {
			delete(calls, name)
		}
	}
	refusesAll := func(when string) {
		tx := begun(t, stranger, `LOCK TABLE watchdog_sessions, watchdog_leases, events,
			watchdog_spend, watchdog_slices, watchdog_outbox, watchdog_lease_ends`)
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
		unknown := errors.Is(err, watchdog.ErrInvalid) && name == "Return"
		if !unknown && !errors.Is(err, session.ErrLeaseExpired) && !errors.Is(err, session.ErrNotFound) {
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
	_, _, err := s.ExpireLease(t.Context(), l)
	require.ErrorIs(t, err, session.ErrLocked)
}
