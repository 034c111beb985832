package sweeptest_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/sweep"
)

func TestOutage(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Options{})
	db := newPostgres(t, server)
	db.seed(t, 1000, 60)
	s := db.store(t)
	down, up := make(chan struct{}), make(chan struct{})
	sweeper := newSweeper(t, s, s, sweep.Config{
		Interval: 20 * time.Millisecond, StartupDelay: watchdog.None, RecordTimeout: time.Minute,
		OnPass: func(p sweep.Pass) {
			if p.Cancelled > 0 && down != nil {
				close(down)
				<-up // or the sweep would finish before the server is down
				down = nil
			}
		},
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- sweeper.Run(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
	}()
	<-down
	server.Stop(true)
	close(up)

	before := sweeper.Stats().Tally
	require.Eventually(t, func() bool { return sweeper.Stats().ConsecutiveFailures >= 3 }, patience, time.Millisecond)
	stats := sweeper.Stats()
	require.Error(t, stats.Last.Err)
	require.Equal(t, 10, before.Cancelled)
	require.Equal(t, before.Cancelled, stats.Cancelled, "nothing is cancelled on an error")
	require.GreaterOrEqual(t, stats.Errors, 3)
	require.Equal(t, 503, healthOf(sweeper))

	require.NoError(t, server.Restart())
	require.Eventually(t, func() bool { return sweeper.Stats().Cancelled == 60 }, patience, time.Millisecond)
	healthy := func() bool { return sweeper.Stats().ConsecutiveFailures == 0 && healthOf(sweeper) == 200 }
	require.Eventually(t, healthy, patience, time.Millisecond)
	require.Equal(t, 60, db.cancelled())
	for runID, times := range db.cancels(t) {
		require.Equal(t, 1, times, runID)
	}
}

// TestLockedDatabase holds SQLite's write lock while a sweeper tries to cancel.
func TestLockedDatabase(t *testing.T) {
	t.Parallel()
	db := newSQLite(t)
	db.seed(t, 100, 3)
	s := db.store(t)
	sweeper := newSweeper(t, s, s, sweep.Config{Interval: time.Millisecond, RecordTimeout: 100 * time.Millisecond})
	conn, err := db.Conn(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	require.NoError(t, err)
	p, err := sweeper.Sweep(t.Context())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.LessOrEqual(t, p.Failed, 3, "none if the time was used up by the try at all of them")
	require.Zero(t, p.Cancelled)
	require.Zero(t, db.cancelled())

	_, err = conn.ExecContext(t.Context(), "ROLLBACK")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, err := sweeper.Sweep(t.Context())
		return err == nil && db.cancelled() == 3
	}, patience, 10*time.Millisecond)
	require.Equal(t, map[string]int{runNumber(1): 1, runNumber(2): 1, runNumber(3): 1}, db.cancels(t))
}

func healthOf(sweeper *sweep.Sweeper) int {
	page := httptest.NewRecorder()
	sweeper.Handler().ServeHTTP(page, httptest.NewRequest("GET", "/", nil))
	return page.Code
}
