package session_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// limited attaches to a run with an idle limit.
func (f *fixture) limited(runID string, idle time.Duration, change func(cfg *watchdog.Config)) *watchdog.Watchdog {
	f.Helper()
	cfg := f.config(f.keeper())
	cfg.Budget.Idle = idle
	change(&cfg)
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: runID, StartedAt: time.Now()}, cfg)
	require.NoError(f, err)
	f.Cleanup(func() { wd.Close() })
	return wd
}

// TestAllowance checks that a row says how long the limits of its run let it be silent.
func TestAllowance(t *testing.T) {
	same := func(*watchdog.Config) {}
	subtest(t, "is the longest limit with the time to end the run, of one that ends itself", func(f *fixture) {
		f.start()
		f.limited("idle", time.Hour, same)
		f.limited("none", watchdog.NoLimit, same)
		f.limited("observed", time.Hour, func(cfg *watchdog.Config) { cfg.ObserveOnly = true })
		f.limited("disabled", time.Hour, func(cfg *watchdog.Config) { cfg.Disabled = true })
		f.limited("stuck", time.Hour, func(cfg *watchdog.Config) { cfg.Budget.NoProgress = 3 * time.Hour })
		require.InDelta(f, time.Hour.Seconds()+15, f.row("idle").Allowance.Seconds(), 5)
		require.InDelta(f, 3*time.Hour.Seconds()+15, f.row("stuck").Allowance.Seconds(), 5)
		require.Zero(f, f.row("idle").Threshold)
		require.Zero(f, f.row("none").Allowance)
		require.Zero(f, f.row("observed").Allowance)
		_, err := f.db.Session(context.Background(), "disabled")
		if err == nil {
			require.Zero(f, f.row("disabled").Allowance)
		}
	})
	subtest(t, "yields to a threshold of the host's, and the first that is shorter is in the log", func(f *fixture) {
		f.cfg.RunThreshold = func(runID string) time.Duration {
			return map[string]time.Duration{"long": 2 * time.Hour, "short": time.Minute, "shorter": time.Minute}[runID]
		}
		f.start()
		f.limited("long", time.Hour, same)
		require.Zero(f, f.log.count("RunThreshold is shorter"))
		f.limited("short", time.Hour, same)
		f.limited("shorter", time.Hour, same)
		require.Equal(f, 1, f.log.count("RunThreshold is shorter"))
		require.Equal(f, time.Minute, f.row("short").Threshold)
		require.Zero(f, f.row("short").Allowance)
		require.Equal(f, 2*time.Hour, f.row("long").Threshold)
	})
	subtest(t, "is in the row again under another lease, and goes with a dead one", func(f *fixture) {
		f.start()
		f.limited("idle", time.Hour, same)
		before := f.row("idle")
		f.expire(before.Lease)
		require.Zero(f, f.row("idle").Allowance)
		f.advance(2 * awake)
		require.NotEqual(f, before.Lease, f.row("idle").Lease)
		require.Equal(f, before.Allowance, f.row("idle").Allowance)
	})
	contention(t, "that rose and is not written makes the row one that is behind", func(f *fixture, c *contended) {
		silent, other := f.attach("s-1"), f.attach("s-2")
		silent.Activity()
		other.Activity()
		f.advance(2 * time.Minute)
		c.change(func() { c.locked["s-1"] = true })
		f.keeper().SetAllowed(time.Hour)
		f.advance(20 * time.Minute)
		require.True(f, f.row("s-1").Behind)
		require.False(f, f.row("s-2").Behind, "its row was written")
		require.Empty(f, f.stalled())
		c.change(func() { clear(c.locked) })
		f.advance(2 * awake)
		require.False(f, f.row("s-1").Behind)
		f.advance(37 * time.Minute)
		require.Empty(f, f.stalled())
		f.advance(5 * time.Minute)
		require.Len(f, f.stalled(), 2)
	})
}
