package postgres_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// sliceOf returns a slice that needs so many requests of so many.
func sliceOf(id string, least, limit int64) watchdog.Slice {
	return watchdog.Slice{
		ID: id, Scope: "tenant-1", Least: watchdog.Totals{Requests: least}, Limit: watchdog.Totals{Requests: limit},
	}
}

// Two processes of so many goroutines each take so many slices, and keep a request of every fourth. With the slices in
// use together they reach the limit.
const (
	takers, eachTakes = 16, 40
	togetherLimit     = 2*takers*eachTakes/4 + 10
)

// runSpender is a process that takes slices: until it is killed, or as long as it has to.
func runSpender(job string) int {
	var name, dsn string
	var endless bool
	if _, err := fmt.Sscan(job, &name, &endless, &dsn); err != nil {
		return fail(err)
	}
	s, err := postgres.Open(context.Background(), dsn, postgres.Config{})
	if err != nil {
		return fail(err)
	}
	defer s.Close()
	err = contract.AtOnce(takers, func(caller int) error {
		for n := 0; endless || n < eachTakes; n++ {
			id := fmt.Sprintf("%s-%d-%d", name, caller, n)
			limit, keep := int64(togetherLimit), int64(n%4/3)
			if endless {
				limit = 1 << 20
			}
			if err := takeSome(s, id, limit, keep); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fail(err)
	}
	return 0
}

// takeSome takes a slice, if one fits, gives it back but for what it keeps, and prints that. It tries again what failed,
// as a host does: the others may hold the scope for longer than a take waits.
func takeSome(s *postgres.Store, id string, limit, keep int64) error {
	var g watchdog.Grant
	err := persist(func() (err error) {
		g, err = s.Take(context.Background(), sliceOf(id, 1, limit))
		return err
	})
	switch {
	case err != nil:
		return err
	case g.Charged.Requests > limit:
		return fmt.Errorf("%d requests are charged of %d", g.Charged.Requests, limit)
	case !g.Fits:
		return nil
	}
	err = persist(func() error {
		return s.Return(context.Background(), id, watchdog.Totals{Requests: g.Granted.Requests - keep})
	})
	if err == nil {
		fmt.Println(id, keep)
	}
	return err
}

func persist(call func() error) (err error) {
	for range 20 {
		if err = call(); err == nil || errors.Is(err, watchdog.ErrInvalid) {
			return err
		}
	}
	return err
}

func spender(t *testing.T, name string, endless bool, dsn string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=spend %s %v %s", childVariable, name, endless, dsn))
	cmd.Stderr = os.Stderr
	return cmd
}

// spendUntil runs a process until it has printed so many slices, or ends, and notes what it kept.
func spendUntil(t *testing.T, cmd *exec.Cmd, last int, note func(id string, requests int64)) {
	t.Helper()
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	lines := bufio.NewScanner(output)
	for n := 1; lines.Scan(); n++ {
		var id string
		var requests int64
		_, err := fmt.Sscan(lines.Text(), &id, &requests)
		assert.NoError(t, err, lines.Text())
		if note(id, requests); n == last {
			assert.NoError(t, cmd.Process.Kill())
		}
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); last > 0 {
		assert.ErrorAs(t, err, &exit)
	} else {
		assert.NoError(t, err)
	}
}

// assertSums checks that a window is charged with what its slices have, and returns that.
func assertSums(t *testing.T, pool *pgxpool.Pool) string {
	t.Helper()
	sums := texts(t, pool, `SELECT requests::text FROM watchdog_spend UNION ALL
		SELECT sum(granted_requests - returned_requests)::text FROM watchdog_slices`)
	require.Len(t, sums, 2)
	assert.Equal(t, sums[0], sums[1], "the window, and its slices")
	return sums[0]
}

// What a process was granted is charged after SIGKILL, each slice once and whole.
func TestSpendAfterKill(t *testing.T) {
	t.Parallel()
	const rounds = 8
	dsn := newDSN(t)
	s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	kept := map[string]int64{}
	for round := range rounds {
		cmd := spender(t, fmt.Sprint(round), true, dsn)
		spendUntil(t, cmd, 1+rand.IntN(60), func(id string, requests int64) { kept[id] = requests })
		ended := func() bool { // a statement of the killed process may still run
			return len(texts(t, pool, `SELECT pid::text FROM pg_stat_activity
				WHERE datname = current_database() AND state <> 'idle' AND pid <> pg_backend_pid()`)) == 0
		}
		require.Eventually(t, ended, time.Minute, 10*time.Millisecond)
		for id, requests := range kept {
			row := texts(t, pool, "SELECT (granted_requests - returned_requests)::text FROM watchdog_slices WHERE id = $1", id)
			require.Equal(t, []string{fmt.Sprint(requests)}, row, "slice %s", id)
		}
		assertSums(t, pool)
	}
	for id := range kept { // an answer that was lost
		g, err := s.Take(t.Context(), sliceOf(id, 3, 1<<20))
		require.NoError(t, err)
		require.True(t, g.Fits)
	}
	assertSums(t, pool)
	t.Logf("%d slices in %d rounds", len(kept), rounds)
}

// Several processes never exceed the limit of a scope, and nothing that they take is lost.
func TestSpendOfProcesses(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	openAt(t, dsn, postgres.Config{})
	var all sync.WaitGroup
	var kept atomic.Int64
	for _, name := range []string{"a", "b"} {
		all.Go(func() {
			mine := int64(0)
			spendUntil(t, spender(t, name, false, dsn), 0, func(_ string, requests int64) { mine += requests })
			assert.Positive(t, mine)
			kept.Add(mine)
		})
	}
	all.Wait()
	assert.Equal(t, fmt.Sprint(kept.Load()), assertSums(t, hostPool(t, dsn)))
}

// A take of a scope that another transaction holds fails in time, charges nothing, and can be made again.
func TestSpendLocked(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, stranger := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	_, err := s.Take(t.Context(), sliceOf("slice-1", 5, 60))
	require.NoError(t, err)
	tx, err := stranger.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), "SELECT FROM watchdog_spend FOR UPDATE")
	require.NoError(t, err)
	began := time.Now()
	_, err = s.Take(t.Context(), sliceOf("slice-2", 5, 60))
	require.ErrorContains(t, err, "lock_timeout")
	require.NotErrorIs(t, err, watchdog.ErrInvalid)
	require.ErrorContains(t, s.Return(t.Context(), "slice-1", watchdog.Totals{}), "lock_timeout")
	assert.Less(t, time.Since(began), 30*time.Second)
	assert.GreaterOrEqual(t, time.Since(began), 2*session.LockWait)
	other := sliceOf("slice-3", 5, 60)
	other.Scope = "tenant-2"
	_, err = s.Take(t.Context(), other)
	require.NoError(t, err, "another scope does not wait")
	require.NoError(t, tx.Rollback(t.Context()))
	g, err := s.Take(t.Context(), sliceOf("slice-2", 5, 60))
	require.NoError(t, err)
	assert.Equal(t, watchdog.Totals{Requests: 10}, g.Charged)
	require.NoError(t, s.Return(t.Context(), "slice-1", watchdog.Totals{Requests: 5}))
}

// Takes and returns of one scope wait for their turn for longer than for any other lock: many may stand in the queue.
func TestSpendQueue(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	_, err := s.Take(t.Context(), sliceOf("slice-1", 5, 60))
	require.NoError(t, err)
	tx, err := pool.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	statement, arguments := s.LockScopeStatement("tenant-1")
	_, err = tx.Exec(t.Context(), statement, arguments...)
	require.NoError(t, err)
	var all sync.WaitGroup
	all.Go(func() {
		_, err := s.Take(t.Context(), sliceOf("slice-2", 5, 60))
		assert.NoError(t, err)
	})
	all.Go(func() { assert.NoError(t, s.Return(t.Context(), "slice-1", watchdog.Totals{Requests: 5})) })
	_, err = tx.Exec(t.Context(), "SELECT pg_sleep($1)", (2 * session.LockWait).Seconds())
	require.NoError(t, err)
	assert.Equal(t, []string{"2"}, texts(t, pool, `SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory'
		AND NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`))
	require.NoError(t, tx.Rollback(t.Context()))
	all.Wait()
	assert.Equal(t, "5", assertSums(t, pool))
}

// Two takes of one ID in two scopes at once are one slice and one error.
func TestSpendOneIDOfTwoScopes(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, stranger := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	tx, err := stranger.Begin(t.Context())
	require.NoError(t, err)
	defer tx.Rollback(context.WithoutCancel(t.Context()))
	_, err = tx.Exec(t.Context(), `INSERT INTO watchdog_slices (id, scope, window_name, taken_at, granted_input_tokens,
		granted_output_tokens, granted_tokens, granted_cost, granted_requests, granted_turns, granted_tool_calls)
		VALUES ('slice-1', 'tenant-2', '', now(), 0, 0, 0, 0, 5, 0, 0)`)
	require.NoError(t, err)
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
	assert.Zero(t, g.Charged)
}

// The window is that of the database's clock, however wrong the host's is.
func TestSpendWindowOfDatabase(t *testing.T) {
	dsn := newDSN(t)
	s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	defer postgres.SetHostClock(func() time.Time { return noon })()
	slice := sliceOf("slice-1", 5, 60)
	slice.Period, slice.Zone = watchdog.PeriodDay, "Asia/Kolkata"
	for _, id := range []string{"slice-1", "slice-2"} {
		slice.ID = id
		g, err := s.Take(t.Context(), slice)
		require.NoError(t, err)
		assert.True(t, g.Fits)
		assert.Less(t, g.Ends, 24*time.Hour)
		assert.Positive(t, g.Ends)
	}
	windows := texts(t, pool, `SELECT concat_ws(' ', window_name, requests) FROM watchdog_spend WHERE window_name <> ''
		AND ends_at > now() AND ends_at <= now() + interval '1 day'`)
	require.Len(t, windows, 1)
	assert.Regexp(t, `^day \d{4}-\d\d-\d\dT18:30:00Z 10$`, windows[0])
}

// A slice whose window was deleted has ended, and is charged nowhere when it is returned.
func TestSpendOfDeletedWindow(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	slice := sliceOf("slice-1", 5, 60)
	slice.Period = watchdog.PeriodDay
	first, err := s.Take(t.Context(), slice)
	require.NoError(t, err)
	mustExec(t, pool, "DELETE FROM watchdog_spend WHERE window_name <> ''")
	g, err := s.Take(t.Context(), slice)
	require.NoError(t, err)
	assert.Equal(t, watchdog.Grant{Fits: true, Granted: watchdog.Totals{Requests: 5}, Window: first.Window}, g)
	require.NoError(t, s.Return(t.Context(), "slice-1", watchdog.Totals{Requests: 2}))
	assert.Empty(t, texts(t, pool, "SELECT scope FROM watchdog_spend WHERE window_name <> ''"))
}

// Whoever finds a slice that was never given back sees whose it is.
func TestSliceHasItsProcess(t *testing.T) {
	t.Parallel()
	dsn := newDSN(t)
	s := openAt(t, dsn, postgres.Config{})
	_, err := s.Take(t.Context(), sliceOf("slice-1", 5, 60))
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	assert.Equal(t, []string{fmt.Sprintf("%s %d", host, os.Getpid())},
		texts(t, hostPool(t, dsn), "SELECT host || ' ' || pid FROM watchdog_slices"))
}
