package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// since1970 selects all events of a run.
func since1970(runID string) event.Selection {
	return event.Selection{AggregateType: event.AggregateType, AggregateID: runID, Since: time.Unix(0, 0)}
}

// counting appends one event to a run, whose ID is the number of those before it.
func counting(runID string) *event.Exchange {
	return &event.Exchange{Selection: since1970(runID), Decide: func(selected []event.Event) []event.Event {
		e := numbered(int64(len(selected)))
		e.ID, e.AggregateID = fmt.Sprint(runID, "-", len(selected)), runID
		return []event.Event{e}
	}}
}

func appending(runID string, events ...event.Event) *event.Exchange {
	e := &event.Exchange{Selection: since1970(runID)}
	e.Decide = func([]event.Event) []event.Event { return events }
	return e
}

// countOf returns how many events a run has.
func countOf(tb testing.TB, s *postgres.Store, runID string) int {
	tb.Helper()
	events, err := s.Read(tb.Context(), event.AggregateType, runID)
	require.NoError(tb, err)
	return len(events)
}

// Two batches with the same runs in opposite orders wait for each other in one order.
func TestTransactOrder(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s := openAt(t, dsn+"&pool_max_conns=16", postgres.Config{})
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for range 10 {
				var batch []*event.Exchange
				for i := range 100 {
					batch = append(batch, counting(fmt.Sprint("run-", i)))
				}
				if worker%2 == 1 {
					slices.Reverse(batch)
				}
				assert.NoError(t, s.Transact(t.Context(), batch...))
			}
		})
	}
	all.Wait()
	for i := range 100 {
		require.Equal(t, 80, countOf(t, s, fmt.Sprint("run-", i)))
	}
	// A deadlock would be repeated, and not be seen by the caller.
	require.Equal(t, []string{"0"}, texts(t, hostPool(t, dsn),
		"SELECT deadlocks::text FROM pg_stat_database WHERE datname = current_database()"))
}

// A tripCounter counts what a connection sends and waits for.
type tripCounter struct {
	trips    atomic.Int64
	onCommit func() // may be nil
}

func (c *tripCounter) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	c.trips.Add(1)
	if query.SQL == "commit" && c.onCommit != nil {
		c.onCommit()
	}
	return ctx
}

func (c *tripCounter) TraceBatchStart(ctx context.Context, _ *pgx.Conn, _ pgx.TraceBatchStartData) context.Context {
	c.trips.Add(1)
	return ctx
}

func (*tripCounter) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData)     {}
func (*tripCounter) TraceBatchQuery(context.Context, *pgx.Conn, pgx.TraceBatchQueryData) {}
func (*tripCounter) TraceBatchEnd(context.Context, *pgx.Conn, pgx.TraceBatchEndData)     {}

func TestTransactRoundTrips(t *testing.T) {
	t.Parallel()
	for mode, want := range map[pgx.QueryExecMode]struct{ transact, call int64 }{
		pgx.QueryExecModeCacheStatement: {4, 1}, pgx.QueryExecModeSimpleProtocol: {5, 3},
	} {
		counter := &tripCounter{}
		s := newStore(t, hostPool(t, newDSN(t), func(c *pgxpool.Config) {
			c.ConnConfig.Tracer, c.ConnConfig.DefaultQueryExecMode, c.MaxConns = counter, mode, 1
		}))
		for _, size := range []int{1, 2, 128} {
			var batch []*event.Exchange
			for i := range size {
				batch = append(batch, counting(fmt.Sprint("run-", i)))
			}
			counter.trips.Store(0)
			require.NoError(t, s.Transact(t.Context(), batch...))
			require.Equal(t, want.transact, counter.trips.Load(), "%d exchanges, %s", size, mode)
		}
		for _, calls := range []int64{3, want.call, want.call} {
			counter.trips.Store(0)
			require.NoError(t, second(s.Select(t.Context(), since1970("run-1"))))
			require.Equal(t, calls, counter.trips.Load(), "a call whose statement is new to the connection, and two more")
		}
	}
}

func TestTransactEndedContext(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t) + "&pool_max_conns=2"
	s := openAt(t, dsn, postgres.Config{})
	t.Run("while it decides", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		e := counting("run-1")
		decide := e.Decide
		e.Decide = func(selected []event.Event) []event.Event {
			cancel()
			return decide(selected)
		}
		err := s.Transact(ctx, counting("run-2"), e)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "nothing was stored")
	})
	t.Run("while it waits for another", func(t *testing.T) {
		deciding, decided := make(chan struct{}), make(chan struct{})
		first := counting("run-3")
		decide := first.Decide
		first.Decide = func(selected []event.Event) []event.Event {
			close(deciding)
			<-decided
			return decide(selected)
		}
		result := make(chan error, 1)
		go func() { result <- s.Transact(t.Context(), first) }()
		<-deciding
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		err := s.Transact(ctx, counting("run-3"))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "nothing was stored")
		close(decided)
		require.NoError(t, <-result)
	})
	t.Run("while it commits", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tracer := &tripCounter{}
		other := newStore(t, hostPool(t, dsn, func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer }))
		tracer.onCommit = cancel
		e := counting("run-4")
		err := other.Transact(ctx, e)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, "may be stored")
		require.Nil(t, e.Kept)
	})
	t.Run("leaves the aggregate free", func(t *testing.T) {
		for _, runID := range []string{"run-1", "run-2"} {
			require.Zero(t, countOf(t, s, runID))
			require.NoError(t, s.Transact(t.Context(), counting(runID)))
		}
		require.Equal(t, 1, countOf(t, s, "run-3"))
	})
}

// A panic of Decide leaves nothing locked.
func TestTransactPanic(t *testing.T) {
	t.Parallel()
	s := openAt(t, newDSN(t)+"&pool_max_conns=1", postgres.Config{})
	e := counting("run-1")
	e.Decide = func([]event.Event) []event.Event { panic("decide") }
	require.Panics(t, func() { _ = s.Transact(t.Context(), counting("run-2"), e) })
	require.NoError(t, s.Transact(t.Context(), counting("run-1")))
	require.Zero(t, countOf(t, s, "run-2"))
}

// The stores of two schemas do not wait for each other.
func TestTransactSchemas(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	here := openAt(t, dsn, postgres.Config{Schema: "here"})
	there := openAt(t, dsn, postgres.Config{Schema: "there"})
	e := counting("run-1")
	decide := e.Decide
	e.Decide = func(selected []event.Event) []event.Event {
		require.NoError(t, there.Transact(t.Context(), counting("run-1")))
		return decide(selected)
	}
	require.NoError(t, here.Transact(t.Context(), e))
}

// waitForLock returns when a statement in the database waits for a lock.
func waitForLock(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	require.Eventually(t, func() bool {
		return len(texts(t, pool, `SELECT query FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock'`)) > 0
	}, 30*time.Second, time.Millisecond)
}

// A statement that the server rolls back is repeated.
func TestSerializationFailure(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s := openAt(t, dsn+"&default_transaction_isolation=serializable", postgres.Config{}).Patient()
	pool := hostPool(t, dsn)
	attach(t, s, "run-1")
	tx := begun(t, pool, "UPDATE watchdog_sessions SET last_event_at = now() + interval '1 second'")
	result := make(chan error, 1)
	go func() {
		before, after, err := s.Attach(t.Context(), session.Session{RunID: "run-1"})
		assert.Equal(t, before.Attempt+1, after.Attempt)
		result <- err
	}()
	waitForLock(t, pool)
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-result, "the caller must not see the serialization failure")
}

// A transaction that the server rolls back because of a deadlock is repeated.
func TestDeadlockRepeated(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, pool := openAt(t, dsn+"&deadlock_timeout=100ms", postgres.Config{}).Patient(), hostPool(t, dsn)
	const insert = `INSERT INTO events SELECT $1, 'runtime_control', 'run-2', 'theirs', '{}', now()`
	tx := begun(t, pool, insert, "event-2")
	_, err := tx.Exec(t.Context(), "SET LOCAL deadlock_timeout = '1h'") // the server ends the other one
	require.NoError(t, err)
	theirs := make(chan error, 1)
	second, tries := appending("run-1", numbered(2)), 0
	second.Decide = func([]event.Event) []event.Event {
		if tries++; tries == 1 {
			go func() { // it waits for us, and then we wait for it
				_, err := tx.Exec(t.Context(), insert, "event-1")
				theirs <- errors.Join(err, tx.Commit(t.Context()))
			}()
			waitForLock(t, pool)
		}
		return []event.Event{numbered(2)}
	}
	require.NoError(t, s.Transact(t.Context(), appending("run-1", numbered(1)), second))
	require.NoError(t, <-theirs)
	require.Greater(t, tries, 1)
	require.Equal(t, "theirs", second.Kept[0].Type)
}

// A batch that waits for the lock of an event holds no lock of a later ID.
func TestInsertOrder(t *testing.T) {
	t.Parallel()
	s, pool := openPatient(t)
	const insert = `INSERT INTO events SELECT $1, 'runtime_control', 'run-1', 'x', '{}', now()`
	tx := begun(t, pool, insert, "event-1")
	result := make(chan error, 1)
	go func() { result <- s.Append(t.Context(), numbered(2), numbered(1)) }()
	waitForLock(t, pool)
	_, err := tx.Exec(t.Context(), "SET LOCAL lock_timeout = '100ms'")
	require.NoError(t, err)
	_, err = tx.Exec(t.Context(), insert, "event-2")
	require.NoError(t, err, "the waiting batch must not hold the lock of event-2")
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-result)
	require.Len(t, read(t, s), 2)
}
