package sweeptest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/benbjohnson/clock"
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
	decided := time.Now()
	ended := first.must()
	t.Logf("the context ended %v after this process saw the cancel", ended.EndedAt.Sub(decided))
	require.Equal(t, watchdog.SessionIdleTimeout, ended.Cause)
	requireRow(t, db, j.Run, cancelledRow(watchdog.SessionIdleTimeout, 1))
	first.end()
	first.wait()
	requireRow(t, db, j.Run, cancelledRow(watchdog.SessionIdleTimeout, 1))

	j.Resume, j.Host = true, "host-b"
	second := start(t, j)
	require.Equal(t, watchdog.Attempt{Number: 2, Stopped: true}, second.must().Attempt)
	requireRow(t, db, j.Run, session.Session{Status: session.Active, Attempt: 2, Host: "host-b"})
	second.end()
	second.wait()
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
		p.wait()
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
	if db.isPostgres() {
		j.Poll = time.Hour
	}
	return j
}

// sweepUntilCancelled sweeps until one session is cancelled.
func sweepUntilCancelled(t *testing.T, db *database) {
	t.Helper()
	s := db.store(t)
	sweeper := newSweeper(t, s, s, sweep.Config{StalledThreshold: 300 * time.Millisecond, MinAge: watchdog.None})
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

// A skewed clock is ahead by a constant.
type skewed struct {
	clock.Clock
	by time.Duration
}

func (c skewed) Now() time.Time                  { return c.Clock.Now().Add(c.by) }
func (c skewed) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
func (c skewed) Until(t time.Time) time.Duration { return t.Sub(c.Now()) }

// skewedHosts runs hosts whose clocks are two minutes ahead and behind, under a sweeper with a threshold of seconds.
func skewedHosts(t *testing.T, db *database) {
	const threshold = 4 * time.Second
	hosts := []*watchdog.Watchdog{
		skewedHost(t, db, "ahead", 2*time.Minute), skewedHost(t, db, "behind", -2*time.Minute),
	}
	s := db.store(t)
	sweeper := newSweeper(t, s, s, sweep.Config{StalledThreshold: threshold, MinAge: watchdog.None})
	awake := time.NewTicker(20 * time.Millisecond)
	defer awake.Stop()
	for began := time.Now(); time.Since(began) < time.Second; <-awake.C {
		for _, wd := range hosts {
			wd.Activity()
		}
		p, err := sweeper.Sweep(t.Context())
		require.NoError(t, err)
		require.Zero(t, p.Found)
	}
	cases := map[string]sweep.Case{}
	require.Eventually(t, func() bool {
		p, err := sweeper.Sweep(t.Context())
		for _, c := range p.Cases {
			cases[c.Session.RunID] = c
		}
		return assert.NoError(t, err) && len(cases) == len(hosts)
	}, patience, 10*time.Millisecond)
	for _, wd := range hosts {
		require.Greater(t, cases[wd.ID()].Silence, threshold)
		require.Less(t, cases[wd.ID()].Silence, 2*time.Minute-threshold, "silence uses the clock of the database")
		select {
		case <-wd.Context().Done():
		case <-time.After(patience):
			require.Fail(t, "the run does not end", wd.ID())
		}
		var stop *watchdog.Stop
		require.ErrorAs(t, context.Cause(wd.Context()), &stop)
		require.Equal(t, watchdog.SessionIdleTimeout, stop.Code)
	}
}

// skewedHost attaches a run in this process, with its own store and keeper and a skewed clock.
func skewedHost(t *testing.T, db *database, runID string, by time.Duration) *watchdog.Watchdog {
	t.Helper()
	s := db.store(t)
	keeper, err := job{Host: runID, Poll: 50 * time.Millisecond}.keeper(s)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- keeper.Run(ctx) }()
	c := skewed{clock.New(), by}
	cfg := watchdog.Config{Store: s, Keeper: keeper, Clock: c, Logger: quiet}
	wd, err := watchdog.New(t.Context(), watchdog.Run{ID: runID, StartedAt: c.Now()}, cfg)
	t.Cleanup(func() {
		if wd != nil {
			err = errors.Join(err, wd.Close())
		}
		stop()
		require.NoError(t, errors.Join(err, <-ended))
	})
	require.NoError(t, err)
	return wd
}
