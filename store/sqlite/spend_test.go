package sqlite_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// sliceOf returns a slice that needs so many requests of so many.
func sliceOf(id string, least, limit int64) watchdog.Slice {
	return watchdog.Slice{
		ID: id, Scope: "tenant-1", Least: watchdog.Totals{Requests: least}, Limit: watchdog.Totals{Requests: limit},
	}
}

// spendLimit is more than what the processes of these tests use until they are killed.
const spendLimit = 1 << 60

// takeUntilKilled takes slices from four goroutines, gives some of them back, and prints each that is charged with how
// much of it is kept.
func takeUntilKilled(file, round string) error {
	s, err := sqlite.Open(context.Background(), file)
	if err != nil {
		return err
	}
	failed := make(chan error)
	for caller := range 4 {
		go func() {
			for n := 0; ; n++ {
				if err := takeOne(s, fmt.Sprintf("%s-%d-%d", round, caller, n), n%3 == 2); err != nil {
					failed <- err
				}
			}
		}()
	}
	return <-failed
}

func takeOne(s *sqlite.Store, id string, giveBack bool) error {
	g, err := s.Take(context.Background(), sliceOf(id, 3, spendLimit))
	if err != nil || !g.Fits {
		return fmt.Errorf("take slice %s: fits %v: %w", id, g.Fits, err)
	}
	if giveBack {
		err = s.Return(context.Background(), id, watchdog.Totals{Requests: g.Granted.Requests - 1})
		g.Granted.Requests = 1
	}
	if err == nil {
		fmt.Println(id, g.Granted.Requests)
	}
	return err
}

// What a process was granted is charged after SIGKILL, each slice once and whole.
func TestSpendAfterKill(t *testing.T) {
	t.Parallel()
	const rounds = 10
	file := newFile(t)
	kept := map[string]int64{}
	for round := range rounds {
		takeAndKill(t, file, fmt.Sprint(round), kept)
		db := openPlain(t, file)
		for id, requests := range kept {
			row := queryAll(t, db, "SELECT granted_requests - returned_requests FROM watchdog_slices WHERE id = '"+id+"'")
			require.Equal(t, []string{fmt.Sprint(requests)}, row, "slice %s", id)
		}
		sums := queryAll(t, db, `SELECT requests FROM watchdog_spend
			UNION ALL SELECT sum(granted_requests - returned_requests) FROM watchdog_slices`)
		require.Equal(t, sums[0], sums[1], "the window, and its slices")
		require.NoError(t, db.Close())
	}
	s := openAt(t, file)
	for id := range kept { // an answer that was lost
		before, err := s.Take(t.Context(), sliceOf("look", spendLimit, 0))
		require.NoError(t, err)
		g, err := s.Take(t.Context(), sliceOf(id, 3, spendLimit))
		require.NoError(t, err)
		require.True(t, g.Fits)
		require.Equal(t, before.Charged, g.Charged)
	}
	t.Logf("%d slices in %d rounds", len(kept), rounds)
}

// takeAndKill kills a child after a random number of slices, and notes what the child printed.
func takeAndKill(t *testing.T, file, round string, kept map[string]int64) {
	t.Helper()
	cmd := child(t, "take until killed", file, round)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	last := len(kept) + 1 + rand.IntN(40)
	lines := bufio.NewScanner(output)
	for lines.Scan() {
		var id string
		var requests int64
		_, err := fmt.Sscan(lines.Text(), &id, &requests)
		require.NoError(t, err, lines.Text())
		if kept[id] = requests; len(kept) == last {
			require.NoError(t, cmd.Process.Kill())
		}
	}
	var exit *exec.ExitError
	require.ErrorAs(t, cmd.Wait(), &exit)
}

// What one process of two may keep at most, and the limit of both: with the slices in use together they reach it.
const (
	takers, eachTakes = 16, 40
	togetherLimit     = 2*takers*eachTakes/4 + 10
)

// takeTogether takes slices from many goroutines, gives most of them back, and prints what is kept.
func takeTogether(file, name string) error {
	waitForStart()
	s, err := sqlite.Open(context.Background(), file)
	if err != nil {
		return err
	}
	var kept atomic.Int64
	err = contract.AtOnce(takers, func(caller int) error {
		for n := range eachTakes {
			keeps, err := takeSome(s, fmt.Sprintf("%s-%d-%d", name, caller, n), int64(n%4/3))
			if err != nil {
				return err
			}
			kept.Add(keeps)
		}
		return nil
	})
	fmt.Println(kept.Load())
	return errors.Join(err, s.Close())
}

// takeSome takes a slice, if one fits, and gives it back but for what it keeps.
func takeSome(s *sqlite.Store, id string, keep int64) (kept int64, err error) {
	g, err := s.Take(context.Background(), sliceOf(id, 1, togetherLimit))
	switch {
	case err != nil:
		return 0, err
	case g.Charged.Requests > togetherLimit:
		return 0, fmt.Errorf("%d requests are charged of %d", g.Charged.Requests, togetherLimit)
	case !g.Fits:
		return 0, nil
	}
	return keep, s.Return(context.Background(), id, watchdog.Totals{Requests: g.Granted.Requests - keep})
}

// Several processes never exceed the limit of a scope, and nothing that they take is lost.
func TestSpendOfProcesses(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	openAt(t, file)
	outputs := together(t, []*exec.Cmd{child(t, "take together", file, "a"), child(t, "take together", file, "b")})
	var kept int64
	for _, output := range outputs {
		var n int64
		_, err := fmt.Sscan(output, &n)
		require.NoError(t, err, output)
		assert.Positive(t, n)
		kept += n
	}
	g, err := openAt(t, file).Take(t.Context(), sliceOf("look", togetherLimit+1, 0))
	require.NoError(t, err)
	assert.Equal(t, kept, g.Charged.Requests)
}

// A take that fails because the database is locked charges nothing, and can be made again under the same ID.
func TestSpendLocked(t *testing.T) {
	t.Parallel()
	withLock(t, func(t *testing.T, s *sqlite.Store, unlock func()) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := s.Take(ctx, sliceOf("slice-1", 5, 60))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		_, err = s.Take(t.Context(), sliceOf("slice-1", 5, 60))
		require.ErrorContains(t, err, "locked by another writer")
		require.NotErrorIs(t, err, watchdog.ErrInvalid)
		unlock()
		g, err := s.Take(t.Context(), sliceOf("slice-1", 5, 60))
		require.NoError(t, err)
		assert.Equal(t, watchdog.Totals{Requests: 5}, g.Charged)
	})
}

// A slice whose window was deleted has ended, and is charged nowhere when it is returned.
func TestSpendOfDeletedWindow(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s, db := openAt(t, file), openPlain(t, file, "busy_timeout(10000)")
	slice := sliceOf("slice-1", 5, 60)
	slice.Period = watchdog.PeriodDay
	first, err := s.Take(t.Context(), slice)
	require.NoError(t, err)
	mustExec(t, db, "DELETE FROM watchdog_spend WHERE window_name <> ''")
	g, err := s.Take(t.Context(), slice)
	require.NoError(t, err)
	assert.Equal(t, watchdog.Grant{Fits: true, Granted: watchdog.Totals{Requests: 5}, Window: first.Window}, g)
	require.NoError(t, s.Return(t.Context(), "slice-1", watchdog.Totals{Requests: 2}))
	assert.Empty(t, queryAll(t, db, "SELECT scope FROM watchdog_spend WHERE window_name <> ''"))
}

// Whoever finds a slice that was never given back sees whose it is.
func TestSliceHasItsProcess(t *testing.T) {
	t.Parallel()
	file := newFile(t)
	s := openAt(t, file)
	_, err := s.Take(t.Context(), sliceOf("slice-1", 5, 60))
	require.NoError(t, err)
	host, err := os.Hostname()
	require.NoError(t, err)
	assert.Equal(t, []string{fmt.Sprintf("%s %d", host, os.Getpid())},
		queryAll(t, openPlain(t, file), "SELECT host || ' ' || pid FROM watchdog_slices"))
}
