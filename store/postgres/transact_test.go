package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// since1970 selects all events of a run.
func since1970(runID string) watchdog.Selection {
	return watchdog.Selection{AggregateType: watchdog.AggregateType, AggregateID: runID, Since: time.Unix(0, 0)}
}

// counting appends one event to a run, whose ID is the number of those before it.
func counting(runID string) *watchdog.Exchange {
	return &watchdog.Exchange{Selection: since1970(runID), Decide: func(selected []watchdog.Event) []watchdog.Event {
		e := numbered(int64(len(selected)))
		e.ID, e.AggregateID = fmt.Sprint(runID, "-", len(selected)), runID
		return []watchdog.Event{e}
	}}
}

func appending(runID string, events ...watchdog.Event) *watchdog.Exchange {
	e := &watchdog.Exchange{Selection: since1970(runID)}
	e.Decide = func([]watchdog.Event) []watchdog.Event { return events }
	return e
}

// countOf returns how many events a run has.
func countOf(tb testing.TB, s *postgres.Store, runID string) int {
	tb.Helper()
	events, err := s.Read(tb.Context(), watchdog.AggregateType, runID)
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
				var batch []*watchdog.Exchange
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
			var batch []*watchdog.Exchange
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
		e.Decide = func(selected []watchdog.Event) []watchdog.Event {
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
		first.Decide = func(selected []watchdog.Event) []watchdog.Event {
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
	e.Decide = func([]watchdog.Event) []watchdog.Event { panic("decide") }
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
	e.Decide = func(selected []watchdog.Event) []watchdog.Event {
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
	s := openAt(t, dsn+"&default_transaction_isolation=serializable", postgres.Config{})
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
	s, pool := openAt(t, dsn+"&deadlock_timeout=100ms", postgres.Config{}), hostPool(t, dsn)
	const insert = `INSERT INTO events SELECT $1, 'runtime_control', 'run-2', 'theirs', '{}', now()`
	tx := begun(t, pool, insert, "event-2")
	_, err := tx.Exec(t.Context(), "SET LOCAL deadlock_timeout = '1h'") // the server ends the other one
	require.NoError(t, err)
	theirs := make(chan error, 1)
	second, tries := appending("run-1", numbered(2)), 0
	second.Decide = func([]watchdog.Event) []watchdog.Event {
		if tries++; tries == 1 {
			go func() { // it waits for us, and then we wait for it
				_, err := tx.Exec(t.Context(), insert, "event-1")
				theirs <- errors.Join(err, tx.Commit(t.Context()))
			}()
			waitForLock(t, pool)
		}
		return []watchdog.Event{numbered(2)}
	}
	require.NoError(t, s.Transact(t.Context(), appending("run-1", numbered(1)), second))
	require.NoError(t, <-theirs)
	require.Greater(t, tries, 1)
	require.Equal(t, "theirs", second.Kept[0].Type)
}

// A batch that waits for the lock of an event holds no lock of a later ID.
func TestInsertOrder(t *testing.T) {
	t.Parallel()
	s, pool := openNew(t)
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

// sliceOf returns a slice that needs so many requests of so many.
func sliceOf(id string, least, limit int64) watchdog.Slice {
	return watchdog.Slice{
		ID: id, Scope: "tenant-1", Least: watchdog.Totals{Requests: least}, Limit: watchdog.Totals{Requests: limit},
	}
}

// assertSums checks that a window is charged with what its slices have, and returns that.
func assertSums(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	sums := texts(t, pool, `SELECT requests::text FROM watchdog_spend UNION ALL
		SELECT sum(granted_requests - returned_requests)::text FROM watchdog_slices`)
	require.Len(t, sums, 2)
	require.Equal(t, sums[0], sums[1], "the window, and its slices")
	return sums[0]
}

// A take of a scope that another transaction holds fails in time, charges nothing, and can be made again.
func TestSpendLocked(t *testing.T) {
	t.Parallel()
	s, stranger := openNew(t)
	_, err := s.Take(t.Context(), sliceOf("slice-1", 5, 60))
	require.NoError(t, err)
	tx := begun(t, stranger, "SELECT FROM watchdog_spend FOR UPDATE")
	began := time.Now()
	_, err = s.Take(t.Context(), sliceOf("slice-2", 5, 60))
	require.ErrorContains(t, err, "lock_timeout")
	require.NotErrorIs(t, err, watchdog.ErrInvalid)
	require.ErrorContains(t, s.Return(t.Context(), "slice-1", watchdog.Totals{}), "lock_timeout")
	require.Less(t, time.Since(began), 30*time.Second)
	require.GreaterOrEqual(t, time.Since(began), 2*session.LockWait)
	other := sliceOf("slice-3", 5, 60)
	other.Scope = "tenant-2"
	require.NoError(t, second(s.Take(t.Context(), other)), "another scope does not wait")
	require.NoError(t, tx.Rollback(t.Context()))
	g, err := s.Take(t.Context(), sliceOf("slice-2", 5, 60))
	require.NoError(t, err)
	require.Equal(t, watchdog.Totals{Requests: 10}, g.Charged)
	require.NoError(t, s.Return(t.Context(), "slice-1", watchdog.Totals{Requests: 5}))
}

// Takes and returns of one scope wait for their turn for longer than for any other lock: many may stand in the queue.
func TestSpendQueue(t *testing.T) {
	t.Parallel()
	s, pool := openNew(t)
	require.NoError(t, second(s.Take(t.Context(), sliceOf("slice-1", 5, 60))))
	statement, arguments := s.LockScopeStatement("tenant-1")
	tx := begun(t, pool, statement, arguments...)
	var all sync.WaitGroup
	all.Go(func() {
		_, err := s.Take(t.Context(), sliceOf("slice-2", 5, 60))
		assert.NoError(t, err)
	})
	all.Go(func() { assert.NoError(t, s.Return(t.Context(), "slice-1", watchdog.Totals{Requests: 5})) })
	require.NoError(t, second(tx.Exec(t.Context(), "SELECT pg_sleep($1)", (2*session.LockWait).Seconds())))
	require.Equal(t, []string{"2"}, texts(t, pool, `SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory'
		AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`))
	require.NoError(t, tx.Rollback(t.Context()))
	all.Wait()
	require.Equal(t, "5", assertSums(t, pool))
}

// Two takes of one ID in two scopes at once are one slice and one error.
func TestSpendOneIDOfTwoScopes(t *testing.T) {
	t.Parallel()
	s, stranger := openNew(t)
	tx := begun(t, stranger, `INSERT INTO watchdog_slices (id, scope, window_name, taken_at, granted_input_tokens,
		granted_output_tokens, granted_tokens, granted_cost, granted_requests, granted_turns, granted_tool_calls)
		VALUES ('slice-1', 'tenant-2', '', now(), 0, 0, 0, 0, 5, 0, 0)`)
	took := make(chan error)
	go func() {
		_, err := s.Take(t.Context(), sliceOf("slice-1", 5, 60))
		took <- err
	}()
	waitForLock(t, stranger)
	require.NoError(t, tx.Commit(t.Context()))
	require.ErrorIs(t, <-took, watchdog.ErrInvalid)
	g, err := s.Take(t.Context(), sliceOf("look", 1<<20, 0))
	require.NoError(t, err)
	require.Zero(t, g.Charged)
}

// The window is that of the database's clock, however wrong the host's is.
func TestSpendWindowOfDatabase(t *testing.T) {
	s, pool := openNew(t)
	defer postgres.SetHostClock(func() time.Time { return noon })()
	slice := sliceOf("slice-1", 5, 60)
	slice.Period, slice.Zone = watchdog.PeriodDay, "Asia/Kolkata"
	for _, id := range []string{"slice-1", "slice-2"} {
		slice.ID = id
		g, err := s.Take(t.Context(), slice)
		require.NoError(t, err)
		require.True(t, g.Fits)
		require.Less(t, g.Ends, 24*time.Hour)
		require.Positive(t, g.Ends)
	}
	windows := texts(t, pool, `SELECT concat_ws(' ', window_name, requests) FROM watchdog_spend WHERE window_name <> ''
		AND ends_at > now() AND ends_at <= now() + interval '1 day'`)
	require.Len(t, windows, 1)
	require.Regexp(t, `^day \d{4}-\d\d-\d\dT18:30:00Z 10$`, windows[0])
}

// beforeStatements calls funcs once, each before the first statement that has a text.
type beforeStatements map[string]func()

func (b beforeStatements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	for text, do := range b {
		if strings.Contains(q.SQL, text) {
			delete(b, text)
			do()
		}
	}
	return ctx
}

func (beforeStatements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// A slice is returned by who had no answer to the take, while that is still under way: between the statement that locks
// and the one that reads. What others take meanwhile stays charged.
func TestReturnMeetsTake(t *testing.T) {
	dsn := newDSN(t)
	other := openAt(t, dsn, postgres.Config{})
	take := func(id string, requests int64, patience time.Duration) error {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		_, err := other.Take(ctx, sliceOf(id, requests, 100))
		return err
	}
	require.NoError(t, take("slice-1", 1, time.Minute), "the window is there")
	var late error
	s := newStore(t, hostPool(t, dsn, func(c *pgxpool.Config) {
		// So each statement is sent by itself.
		c.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
		c.ConnConfig.Tracer = beforeStatements{
			"s.returned_at IS NOT NULL": func() { require.NoError(t, take("slice-2", 10, time.Minute)) },
			"returned_at = ":            func() { late = take("slice-3", 20, time.Second/5) },
		}
	}))
	require.NoError(t, s.Return(t.Context(), "slice-2", watchdog.Totals{Requests: 4}))
	require.Error(t, late, "the scope is not locked while it is changed")
	g, err := other.Take(t.Context(), sliceOf("slice-4", 1, 100))
	require.NoError(t, err)
	require.Equal(t, int64(1+10-4+1), g.Charged.Requests)
}
