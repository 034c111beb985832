package postgres_test

import (
	"context"
	"strings"
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
	s, stranger := openNew(t, postgres.Config{})
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
	_, err = s.Take(t.Context(), other)
	require.NoError(t, err, "another scope does not wait")
	require.NoError(t, tx.Rollback(t.Context()))
	g, err := s.Take(t.Context(), sliceOf("slice-2", 5, 60))
	require.NoError(t, err)
	require.Equal(t, watchdog.Totals{Requests: 10}, g.Charged)
	require.NoError(t, s.Return(t.Context(), "slice-1", watchdog.Totals{Requests: 5}))
}

// Takes and returns of one scope wait for their turn for longer than for any other lock: many may stand in the queue.
func TestSpendQueue(t *testing.T) {
	t.Parallel()
	s, pool := openNew(t, postgres.Config{})
	_, err := s.Take(t.Context(), sliceOf("slice-1", 5, 60))
	require.NoError(t, err)
	statement, arguments := s.LockScopeStatement("tenant-1")
	tx := begun(t, pool, statement, arguments...)
	var all sync.WaitGroup
	all.Go(func() {
		_, err := s.Take(t.Context(), sliceOf("slice-2", 5, 60))
		assert.NoError(t, err)
	})
	all.Go(func() { assert.NoError(t, s.Return(t.Context(), "slice-1", watchdog.Totals{Requests: 5})) })
	_, err = tx.Exec(t.Context(), "SELECT pg_sleep($1)", (2 * session.LockWait).Seconds())
	require.NoError(t, err)
	require.Equal(t, []string{"2"}, texts(t, pool, `SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory'
		AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`))
	require.NoError(t, tx.Rollback(t.Context()))
	all.Wait()
	require.Equal(t, "5", assertSums(t, pool))
}

// Two takes of one ID in two scopes at once are one slice and one error.
func TestSpendOneIDOfTwoScopes(t *testing.T) {
	t.Parallel()
	s, stranger := openNew(t, postgres.Config{})
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
	s, pool := openNew(t, postgres.Config{})
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

func (b beforeStatements) TraceQueryStart(
	ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData,
) context.Context {
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
