package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/sweep"
)

// startPair starts a primary with a synchronous standby, and returns that and a connection string that leads to
// whichever accepts writes.
func startPair(t *testing.T) (standby *pgtest.Standby, dsn string) {
	t.Helper()
	primary := pgtest.Start(t, pgtest.Options{})
	standby = pgtest.StartStandby(t, primary, pgtest.StandbyOptions{Synchronous: true})
	return standby, pgtest.DSN(primary.Database(t), time.Second, primary, standby.Server)
}

// TestSweepStandbyAway: while the synchronous standby is away, no cancel of a sweeper is answered, though the primary
// carries it out. Each is counted once all the same, and has its alert, its resume and its end event once.
func TestSweepStandbyAway(t *testing.T) {
	t.Parallel()
	const stalled = 3
	standby, dsn := startPair(t)
	store, pool := openAt(t, dsn, postgres.Config{}), hostPool(t, dsn)
	for i := range stalled {
		_, _, err := store.Attach(t.Context(), session.Session{RunID: runNumber(i), StartedAt: noon, Host: "dead"})
		require.NoError(t, err)
	}
	mustExec(t, pool, "UPDATE watchdog_sessions SET last_event_at = now() - interval '1 hour'")

	alerts, keys := 0, map[string]string{} // of starts, which are repeated until the run attaches
	sweeper, err := sweep.New(store, store, sweep.Config{
		Interval: 100 * time.Millisecond, StalledThreshold: threshold, MinAge: watchdog.None, RecordTimeout: time.Second,
		StopTimeout: time.Second,
		Alert:       sweep.Alert{Within: time.Nanosecond, Func: func(context.Context, int) { alerts++ }}, // of each cancel
		Resume: sweep.ResumePolicy{Max: 1, Tries: 2, Start: func(_ context.Context, s session.Session) error {
			if before, again := keys[s.RunID]; again {
				require.Equal(t, before, s.Start.Key)
			}
			keys[s.RunID] = s.Start.Key
			return nil
		}},
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	require.NoError(t, standby.Disconnect(t.Context()))
	began := time.Now()
	_, _ = sweeper.Sweep(t.Context()) // what it says depends on when the primary gives up waiting
	require.GreaterOrEqual(t, time.Since(began), stalled*time.Second, "each cancel waited for the standby")
	require.NoError(t, standby.Reconnect(t.Context()))
	allCancelled := func() bool {
		_, err := sweeper.Sweep(t.Context())
		left := texts(t, pool, "SELECT run_id FROM watchdog_sessions WHERE start_due IS NOT NULL") // nobody attaches
		return err == nil && sweeper.Stats().Cancelled >= stalled && len(left) == 0
	}
	for began := time.Now(); !allCancelled(); time.Sleep(100 * time.Millisecond) { // the pauses of those that failed
		require.Less(t, time.Since(began), seconds)
	}
	for range 3 {
		p, err := sweeper.Sweep(t.Context())
		require.NoError(t, err)
		require.Empty(t, p.Cases)
	}
	require.Equal(t, stalled, sweeper.Stats().Cancelled)
	require.Equal(t, stalled, alerts)
	for i := range stalled {
		row := sessionOf(t, store, runNumber(i))
		require.Equal(t, session.Cancelled, row.Status)
		require.Equal(t, watchdog.SessionIdleTimeout, row.Reason)
		require.Equal(t, 1, row.Resumes)
		require.NotEmpty(t, keys[runNumber(i)])
		require.Equal(t, []string{"1"}, texts(t, pool, fmt.Sprintf(`SELECT count(*)::text FROM events
			WHERE aggregate_id = '%s' AND event_type = '%s'`, runNumber(i), watchdog.EventCancel)))
	}
}

// While the synchronous standby is away no event is acknowledged, not even one that is appended again: the primary has
// stored it, and the standby, which may be promoted, has not.
func TestStandbyAway(t *testing.T) {
	t.Parallel()
	standby, dsn := startPair(t)
	s := openAt(t, dsn, postgres.Config{}) // it makes the tables
	require.NoError(t, standby.Disconnect(t.Context()))
	stored := 0
	for name, write := range map[string]func(ctx context.Context) error{
		"appended":   func(ctx context.Context) error { return s.Append(ctx, numbered(1)) },
		"transacted": func(ctx context.Context) error { return s.Transact(ctx, appending("run-1", numbered(2))) },
	} {
		stored++
		t.Run("an event is not acknowledged that is "+name, func(t *testing.T) {
			for tries := 0; tries < 3 || len(read(t, s)) < stored; tries++ { // a busy machine may not come to the commit
				require.Less(t, tries, 100)
				ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
				require.ErrorIs(t, write(ctx), context.DeadlineExceeded)
				cancel()
			}
		})
	}
	require.Len(t, read(t, s), 2, "the primary has stored them")
	require.NoError(t, standby.Reconnect(t.Context()))
	require.NoError(t, s.Append(t.Context(), numbered(1)))
}
