package sweeptest_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// liveRun cancels a live run of another process with a sweeper.
func liveRun(t *testing.T, db *database) {
	j := newHost(db)
	first := start(t, j)
	require.Equal(t, watchdog.Attempt{Number: 1}, first.must().Attempt)
	sweepUntilCancelled(t, db)
	require.Equal(t, watchdog.SessionIdleTimeout, first.must().Cause)
	requireRow(t, db, j.Run, cancelledRow(watchdog.SessionIdleTimeout, 1))
	first.end()
	requireRow(t, db, j.Run, cancelledRow(watchdog.SessionIdleTimeout, 1))

	j.Resume, j.Host = true, "host-b"
	second := start(t, j)
	require.Equal(t, watchdog.Attempt{Number: 2, Stopped: true}, second.must().Attempt)
	requireRow(t, db, j.Run, session.Session{Status: session.Active, Attempt: 2, Host: "host-b"})
	second.end()
	requireRow(t, db, j.Run, session.Session{Status: session.Finished, Attempt: 2, Host: "host-b"})
	require.Equal(t, map[string]int{j.Run: 1}, db.cancels(t))
}

// killedHost kills a host twice and sweeps its session.
func killedHost(t *testing.T, db *database) {
	j := newHost(db)
	crash := func(want watchdog.Attempt) {
		t.Helper()
		p := start(t, j)
		require.Equal(t, want, p.must().Attempt)
		p.kill()
		requireRow(t, db, j.Run, session.Session{Status: session.Active, Attempt: want.Number, Host: "host-a"})
	}
	crash(watchdog.Attempt{Number: 1})
	crash(watchdog.Attempt{Number: 2, Lost: true})
	sweepUntilCancelled(t, db)
	requireRow(t, db, j.Run, cancelledRow(watchdog.SessionHostLost, 2))
	require.Equal(t, map[string]int{j.Run: 1}, db.cancels(t))
	j.Resume = true
	crash(watchdog.Attempt{Number: 3, Stopped: true}) // not lost: the sweeper recorded how the attempt before ended
}

// cancelledRow is the row of a run of host-a that a sweeper cancelled.
func cancelledRow(reason watchdog.StopReason, attempt int) session.Session {
	return session.Session{Status: session.Cancelled, Attempt: attempt, Host: "host-a", Reason: reason}
}

// newHost returns the job of a run's host. In PostgreSQL it never polls during a test: it must be notified.
func newHost(db *database) job {
	j := job{DSN: db.dsn, Run: "s-1", Host: "host-a", StartedAt: time.Now(), Poll: 50 * time.Millisecond}
	if strings.HasPrefix(db.dsn, "postgres:") {
		j.Poll = time.Hour
	}
	return j
}

// sweepUntilCancelled sweeps until one session is cancelled.
func sweepUntilCancelled(t *testing.T, db *database) {
	t.Helper()
	s := db.store(t)
	sweeper, err := sweep.New(s, s, sweep.Config{
		StalledThreshold: 300 * time.Millisecond, MinAge: watchdog.None, Logger: quiet,
	})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		p, err := sweeper.Sweep(t.Context())
		return assert.NoError(t, err) && p.Cancelled == 1
	}, patience, 10*time.Millisecond)
}

// requireRow compares the fields that do not depend on the time.
func requireRow(t *testing.T, db *database, runID string, want session.Session) {
	t.Helper()
	row, err := db.store(t).Session(t.Context(), runID)
	require.NoError(t, err)
	got := session.Session{Status: row.Status, Attempt: row.Attempt, Host: row.Host, Reason: row.Reason}
	require.Equal(t, want, got)
}
