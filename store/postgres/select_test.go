package postgres_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres"
)

func TestSelectFarTimes(t *testing.T) {
	t.Parallel()
	s := setups[opened](t)
	require.NoError(t, s.Append(t.Context(), numbered(1)))
	for year, want := range map[int]int{-400_000: 1, -1: 1, 1: 1, 9999: 0, 10_000: 0, 400_000: 0} {
		selection := since1970("run-1")
		selection.Since = time.Date(year, 2, 3, 4, 5, 6, 7, time.UTC)
		events, err := s.Select(t.Context(), selection)
		require.NoError(t, err, year)
		require.Len(t, events, want, year)
		selection.LatestOf = []string{watchdog.EventWarning}
		events, err = s.Select(t.Context(), selection)
		require.NoError(t, err, year)
		require.Len(t, events, 1, year)
	}
}

// A follower collects what a Follow tells.
type follower struct {
	stop context.CancelFunc
	told chan watchdog.Event
	end  chan error
}

// follow returns when Follow is ready.
func follow(t *testing.T, s *postgres.Store, aggregateID string) *follower {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	f := &follower{stop: stop, told: make(chan watchdog.Event, 1000), end: make(chan error, 1)}
	ready := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		f.end <- s.Follow(ctx, aggregateID, func() { close(ready) }, func(e watchdog.Event) { f.told <- e })
	})
	t.Cleanup(func() { stop(); all.Wait() })
	select {
	case <-ready:
	case err := <-f.end:
		require.NoError(t, err, "Follow ended before it was ready")
	}
	return f
}

// next returns the next event.
func (f *follower) next(t *testing.T) watchdog.Event {
	t.Helper()
	select {
	case e := <-f.told:
		return e
	case err := <-f.end:
		require.NoError(t, err)
	case <-time.After(30 * time.Second):
		require.Fail(t, "Follow told nothing")
	}
	return watchdog.Event{}
}

// ended returns the error of Follow. There must be no event that the test did not expect.
func (f *follower) ended(t *testing.T) error {
	t.Helper()
	f.stop()
	err := <-f.end
	require.Empty(t, f.told)
	return err
}

// What a transaction wrote is told when it commits, and what was written meanwhile only once.
func TestFollowOpenTransaction(t *testing.T) {
	t.Parallel()
	s, pool := openNew(t, postgres.Config{})
	s.SetFollowPause(100 * time.Millisecond)
	const insert = `INSERT INTO events SELECT $1, 'runtime_control', 'run-1', 'x', '{}', now()`
	tx := begun(t, pool, insert, "before")
	require.NoError(t, s.Append(t.Context(), numbered(0)))
	f := follow(t, s, "")
	require.NoError(t, s.Append(t.Context(), numbered(1)))
	require.Equal(t, "event-1", f.next(t).ID)
	savepoint, err := tx.Begin(t.Context())
	require.NoError(t, err)
	_, err = savepoint.Exec(t.Context(), insert, "savepoint")
	require.NoError(t, err)
	require.NoError(t, savepoint.Commit(t.Context()))
	require.NoError(t, s.Append(t.Context(), numbered(2)))
	require.Equal(t, "event-2", f.next(t).ID)
	require.NoError(t, tx.Commit(t.Context()))
	require.Equal(t, "before", f.next(t).ID)
	require.Equal(t, "savepoint", f.next(t).ID)
	require.NoError(t, s.Append(t.Context(), numbered(3)))
	require.Equal(t, "event-3", f.next(t).ID)
	require.ErrorIs(t, f.ended(t), context.Canceled)
}

// Nothing that is stored after ready is missed or told twice, whatever is stored at the same time.
func TestFollowManyWriters(t *testing.T) {
	t.Parallel()
	s := openAt(t, newDSN(t)+"&pool_max_conns=8", postgres.Config{})
	s.SetFollowPause(100 * time.Millisecond)
	done := make(chan struct{})
	var all sync.WaitGroup
	for writer := range 4 {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-done:
					return
				default:
					assert.NoError(t, s.Append(t.Context(), numbered(int64(writer*1_000_000+n))))
				}
			}
		})
	}
	ctx, stop := context.WithCancel(t.Context())
	told, before := map[string]bool{}, map[string]bool{}
	var mu sync.Mutex
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		ended <- s.Follow(ctx, "", func() { close(ready) }, func(e watchdog.Event) {
			mu.Lock()
			defer mu.Unlock()
			assert.False(t, told[e.ID], "%s was told twice", e.ID)
			told[e.ID] = true
		})
	}()
	<-ready
	for _, id := range read(t, s) {
		before[id] = true // some of these are told
	}
	time.Sleep(time.Second)
	close(done)
	all.Wait()
	last := numbered(1_000_000_000)
	require.NoError(t, s.Append(t.Context(), last))
	require.Eventually(t, func() bool {
		mu.Lock()
		defer mu.Unlock()
		return told[last.ID]
	}, time.Minute, 10*time.Millisecond)
	stop()
	require.ErrorIs(t, <-ended, context.Canceled)
	missed := 0
	for _, id := range read(t, s) {
		if !before[id] && !told[id] {
			missed++
		}
	}
	require.Zero(t, missed)
	t.Logf("told %d", len(told))
}

func TestFollowEnds(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	t.Run("when its store is closed, even by told", func(t *testing.T) {
		s := openAt(t, dsn, postgres.Config{})
		err := s.Follow(t.Context(), "", func() { assert.NoError(t, s.Append(t.Context(), numbered(1), numbered(2))) },
			func(e watchdog.Event) {
				require.Equal(t, "event-1", e.ID, "the store was closed")
				require.NoError(t, s.Close())
			})
		require.ErrorIs(t, err, postgres.ErrClosed)
	})
	t.Run("when a row cannot be read", func(t *testing.T) {
		f := follow(t, openAt(t, dsn, postgres.Config{}), "")
		mustExec(t, hostPool(t, dsn), `INSERT INTO events
			SELECT 'endless', 'runtime_control', 'run-1', 'x', '{}', 'infinity'`)
		require.ErrorContains(t, <-f.end, "endless")
	})
}

// The server reads what an array was made of, in every mode of a pool.
func TestArray(t *testing.T) {
	wanted := []string{
		"plain", "", "NULL", "null", "{}", "{a,b}", "a,b", `"`, `\`, `\"`, `a "quoted" \ text`, "'", "''", " around ",
		"two\nlines\tand a tab", "é…🙂", `{"n":"\u0000"}`,
	}
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	inside := time.Date(2026, 3, 4, 12, 0, 0, 1999, time.FixedZone("", 3600))
	for _, mode := range []pgx.QueryExecMode{
		pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol,
	} {
		pool := hostPool(t, newDSN(t), func(c *pgxpool.Config) { c.ConnConfig.DefaultQueryExecMode = mode })
		require.Empty(t, texts(t, pool, "SELECT unnest($1::text[])", postgres.ArrayOfTexts()))
		require.Equal(t, wanted, texts(t, pool, "SELECT unnest($1::text[])", postgres.ArrayOfTexts(wanted...)), mode)
		require.Equal(t, []string{"a", "none", "b"}, texts(t, pool, "SELECT coalesce(n, 'none') FROM unnest($1::text[]) AS n",
			postgres.ArrayOrNull("a", "", "b")), mode)
		require.Equal(t, []string{"1", "-9223372036854775808"}, texts(t, pool, "SELECT unnest($1::bigint[])::text",
			postgres.ArrayOfNumbers(1, math.MinInt64)), mode)
		require.Equal(t, []string{"0001-01-01 00:00:00.000000", "9999-12-31 23:59:59.999999", "2026-03-04 11:00:00.000001"},
			texts(t, pool, `SELECT to_char(unnest($1::timestamptz[]) AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')`,
				postgres.ArrayOfTimes(first, last, inside)), mode)
	}
}
