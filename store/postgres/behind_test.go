package postgres_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/sweep"
)

// hangs is the threshold of the sweeper in these tests.
const hangs = 2 * time.Second

// refuseSigns is a trigger that refuses every write to a row which leaves it active.
const refuseSigns = `
	CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the host refuses it'; END $$;
	CREATE TRIGGER refuse BEFORE UPDATE ON watchdog_sessions FOR EACH ROW
		WHEN (new.run_id = 'awake' AND new.status = 'active') EXECUTE FUNCTION refuse()`

// foundBefore is what a sweeper finds that knows only vouched.
const foundBefore = `
	SELECT s.run_id FROM watchdog_leases AS l JOIN watchdog_sessions AS s ON s.lease = l.id
	WHERE l.expired IS NULL AND s.status = 'active' AND s.quiet_since IS NOT NULL
		AND l.vouched - s.activity > 2000000000`

// TestRowBehind checks that one row which cannot be written hides no hung run of its process, and that its own run,
// which lives, is not cancelled: by a sweeper, or by one that knows only vouched.
func TestRowBehind(t *testing.T) {
	t.Parallel()
	for name, holdUp := range map[string]func(t *testing.T, pool *pgxpool.Pool) (release func()){
		"locked by a stranger": func(t *testing.T, pool *pgxpool.Pool) func() { return lock(t, pool, "awake") },
		"refused by a trigger": func(t *testing.T, pool *pgxpool.Pool) func() {
			mustExec(t, pool, refuseSigns)
			return func() { mustExec(t, pool, "DROP TRIGGER refuse ON watchdog_sessions") }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := newDSN(t)
			s, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
			wd := hangAllBut(t, s)
			require.Eventually(t, func() bool {
				return len(texts(t, pool, "SELECT run_id FROM watchdog_sessions WHERE quiet_since IS NOT NULL")) == 21
			}, seconds, 10*time.Millisecond)
			release := holdUp(t, pool)
			stop := signalAllTheTime(t, wd)
			sweepAllTheTime(t, s)
			require.Eventually(t, func() bool {
				assert.NotContains(t, texts(t, pool, foundBefore), "awake")
				return cancelled(t, pool) == 20
			}, seconds, 20*time.Millisecond, "the runs that hang are cancelled")
			assert.Equal(t, []string{"awake 1 true"}, rowsBehind(t, pool))
			for began := time.Now(); time.Since(began) < hangs; time.Sleep(20 * time.Millisecond) {
				require.NotContains(t, texts(t, pool, foundBefore), "awake")
				require.NoError(t, wd.Context().Err(), "%v", context.Cause(wd.Context()))
			}
			release()
			require.Eventually(t, func() bool {
				return slices.Equal(texts(t, pool, `SELECT (l.clock - s.activity < 1000000000)::text FROM watchdog_sessions AS s
					JOIN watchdog_leases AS l ON l.id = s.lease WHERE s.run_id = 'awake'`), []string{"true"})
			}, seconds, 20*time.Millisecond, "its row is written again")
			require.NoError(t, wd.Context().Err(), "%v", context.Cause(wd.Context()))
			require.Eventually(t, func() bool { return len(rowsBehind(t, pool)) == 0 }, seconds, 20*time.Millisecond)
			stop()
			require.Eventually(t, func() bool { return cancelled(t, pool) == 21 }, seconds, 20*time.Millisecond,
				"it hangs, too, and is behind no more")
		})
	}
}

// rowsBehind returns what the statement for operators finds: the run, the attempt, and that a while has gone by.
func rowsBehind(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	for _, statement := range documented(t, "operations-alerts.md", "What to alert on") {
		if strings.Contains(statement, "behind_seconds") {
			return texts(t, pool, "SELECT run || ' ' || attempt || ' ' || (behind_seconds > 1) FROM ("+statement+") AS f")
		}
	}
	require.Fail(t, "there is no such statement")
	return nil
}

// hangAllBut attaches to twenty runs that hang after a first signal, and to one named awake, which it returns.
func hangAllBut(t *testing.T, s *postgres.Store) (awake *watchdog.Watchdog) {
	t.Helper()
	cfg := keeperConfig(s, "host-1")
	cfg.Threshold = hangs
	keeper, err := session.NewKeeper(cfg)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var keeping sync.WaitGroup
	keeping.Go(func() { assert.NoError(t, keeper.Run(ctx)) })
	t.Cleanup(func() {
		stop()
		keeping.Wait()
	})
	c := cluster{T: t}
	for i := range 20 {
		c.guard(s, keeper, runNumber(i), watchdog.NoLimit).Activity()
	}
	awake = c.guard(s, keeper, "awake", watchdog.NoLimit)
	awake.Activity()
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
func sweepAllTheTime(t *testing.T, s *postgres.Store) {
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

// cancelled returns how many sessions are cancelled.
func cancelled(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	return len(texts(t, pool, "SELECT run_id FROM watchdog_sessions WHERE status = 'cancelled'"))
}
