package postgres_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/sweep"
)

// TestSweepStandbyAway: while the synchronous standby is away, no cancel of a sweeper is answered, though the primary
// carries it out. Each is counted once all the same, and has its alert, its resume and its end event once.
func TestSweepStandbyAway(t *testing.T) {
	t.Parallel()
	const stalled = 3
	c := startCluster(t, true)
	store := openAt(t, c.dsn, postgres.Config{})
	for i := range stalled {
		_, _, err := store.Attach(t.Context(), session.Session{RunID: runNumber(i), StartedAt: noon, Host: "dead"})
		require.NoError(t, err)
	}
	require.NoError(t, c.age(t.Context()))

	alerts, keys := 0, map[string]string{} // of starts, which are repeated until the run attaches
	sweeper, err := sweep.New(store, store, sweep.Config{
		Interval: 100 * time.Millisecond, StalledThreshold: silence, MinAge: watchdog.None, RecordTimeout: time.Second,
		StopTimeout: time.Second,
		Alert:       sweep.Alert{Within: time.Nanosecond, Func: func(context.Context, int) { alerts++ }}, // of each cancel
		Resume: sweep.ResumePolicy{Max: 1, Tries: 2, Start: func(_ context.Context, s session.Session) error {
			if before, again := keys[s.RunID]; again {
				assert.Equal(t, before, s.Start.Key)
			}
			keys[s.RunID] = s.Start.Key
			return nil
		}},
		Logger: slog.New(slog.DiscardHandler),
	})
	require.NoError(t, err)
	require.NoError(t, c.standby.Disconnect(t.Context()))
	began := time.Now()
	_, _ = sweeper.Sweep(t.Context()) // what it says depends on when the primary gives up waiting
	require.GreaterOrEqual(t, time.Since(began), stalled*time.Second, "each cancel waited for the standby")
	require.NoError(t, c.standby.Reconnect(t.Context()))
	c.until("cancels", func() bool {
		time.Sleep(100 * time.Millisecond) // so that the pauses of those that failed are over
		_, err := sweeper.Sweep(t.Context())
		left := texts(t, c.pool, "SELECT run_id FROM watchdog_sessions WHERE start_due IS NOT NULL") // nobody attaches
		return err == nil && sweeper.Stats().Cancelled >= stalled && len(left) == 0
	})
	for range 3 {
		p, err := sweeper.Sweep(t.Context())
		require.NoError(t, err)
		assert.Empty(t, p.Cases)
	}
	assert.Equal(t, stalled, sweeper.Stats().Cancelled)
	assert.Equal(t, stalled, alerts)
	for i := range stalled {
		row := sessionOf(t, store, runNumber(i))
		assert.Equal(t, session.Cancelled, row.Status)
		assert.Equal(t, watchdog.SessionIdleTimeout, row.Reason)
		assert.Equal(t, 1, row.Resumes)
		assert.NotEmpty(t, keys[runNumber(i)])
		assert.Equal(t, []string{"1"}, texts(t, c.pool, fmt.Sprintf(`SELECT count(*)::text FROM events
			WHERE aggregate_id = '%s' AND event_type = '%s'`, runNumber(i), watchdog.EventCancel)))
	}
	assert.Empty(t, texts(t, c.pool, disagreements))
}
