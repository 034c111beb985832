package sqlite_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/sqlite"
	"github.com/seed62658d38/watchdog/sweep"
)

// hangs is the threshold of the sweeper in these tests.
const hangs = 4 * time.Second

// refuseSigns is a trigger that refuses every write to a row which leaves it active.
const refuseSigns = `CREATE TRIGGER refuse BEFORE UPDATE ON watchdog_sessions
	WHEN new.run_id = 'awake' AND new.status = 'active' BEGIN SELECT RAISE(ABORT, 'the host refuses it'); END`

// foundBefore is what a sweeper finds that knows only vouched.
const foundBefore = `
	SELECT s.run_id FROM watchdog_leases AS l JOIN watchdog_sessions AS s ON s.lease = l.id
	WHERE l.expired IS NULL AND s.status = 'active' AND s.quiet_since < l.vouched - 4000000000`

// TestRowBehind checks that a row which a trigger refuses hides no hung run of its process, and that its own run, which
// lives, is not cancelled: by a sweeper, or by one that knows only vouched.
func TestRowBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		file := newFile(t)
		s, db := openAt(t, file), openPlain(t, file, "busy_timeout(10000)")
		wd := hangAllBut(t, s)
		count := func(condition string) int {
			return len(queryAll(t, db, "SELECT run_id FROM watchdog_sessions WHERE "+condition))
		}
		require.Eventually(t, func() bool { return count("quiet_since IS NOT NULL") == 21 }, time.Minute, 10*time.Millisecond)
		mustExec(t, db, refuseSigns)
		stop := signalAllTheTime(t, wd)
		sweepAllTheTime(t, s)
		require.Eventually(t, func() bool {
			assert.NotContains(t, queryAll(t, db, foundBefore), "awake")
			return count("status = 'cancelled'") == 20
		}, 8*hangs, 100*time.Millisecond, "the runs that hang are cancelled")
		for began := time.Now(); time.Since(began) < hangs; time.Sleep(100 * time.Millisecond) {
			require.NotContains(t, queryAll(t, db, foundBefore), "awake")
			require.NoError(t, wd.Context().Err(), "%v", context.Cause(wd.Context()))
		}
		mustExec(t, db, "DROP TRIGGER refuse")
		require.Eventually(t, func() bool {
			return count(`activity > (SELECT clock FROM watchdog_leases) - 2000000000`) == 1
		}, 8*hangs, 100*time.Millisecond, "its row is written again")
		require.NoError(t, wd.Context().Err(), "%v", context.Cause(wd.Context()))
		stop()
		require.Eventually(t, func() bool { return count("status = 'cancelled'") == 21 }, 8*hangs, 100*time.Millisecond,
			"it hangs, too, and is behind no more")
	})
}

// hangAllBut attaches to twenty runs that hang after a first signal, and to one named awake, which it returns.
func hangAllBut(t *testing.T, s *sqlite.Store) (awake *watchdog.Watchdog) {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	keeper, err := session.NewKeeper(session.KeeperConfig{
		Store: s, Host: "host-1", Promise: time.Second, Threshold: hangs, Pace: hangs / 16, Logger: quiet,
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var keeping sync.WaitGroup
	keeping.Go(func() { assert.NoError(t, keeper.Run(ctx)) })
	t.Cleanup(func() {
		stop()
		keeping.Wait()
	})
	for i := range 21 {
		runID := fmt.Sprintf("hung-%d", i)
		if i == 20 {
			runID = "awake"
		}
		wd, err := watchdog.New(ctx, watchdog.Run{ID: runID, StartedAt: time.Now()}, watchdog.Config{
			Store: s, Keeper: keeper, Budget: watchdog.Budget{WallClock: watchdog.NoLimit}, Logger: quiet,
		})
		require.NoError(t, err)
		t.Cleanup(func() { _ = wd.Close() })
		wd.Activity()
		awake = wd
	}
	return awake
}

// signalAllTheTime has a run signal until it is stopped.
func signalAllTheTime(t *testing.T, wd *watchdog.Watchdog) (stop func()) {
	t.Helper()
	var once sync.Once
	ended, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			wd.Activity()
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ended:
				return
			}
		}
	}()
	stop = func() {
		once.Do(func() { close(ended) })
		<-done
	}
	t.Cleanup(stop)
	return stop
}

// sweepAllTheTime sweeps until the test ends.
func sweepAllTheTime(t *testing.T, s *sqlite.Store) {
	t.Helper()
	sweeper, err := sweep.New(s, s, sweep.Config{
		Interval: 50 * time.Millisecond, StalledThreshold: hangs, MinAge: watchdog.None, StartupDelay: watchdog.None,
		MaxCancellationsPerRun: watchdog.NoLimit, Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	var passes sync.WaitGroup
	passes.Go(func() { _ = sweeper.Run(t.Context()) })
	t.Cleanup(passes.Wait)
}
