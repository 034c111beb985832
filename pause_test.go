package watchdog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// runPaused is runFixture with a run that has been silent for 2 s of 4 when its guard stands still for 6 s. Nothing has
// looked since.
func runPaused(t *testing.T, name string, with func(*watchdog.Config), test func(b *fixture, wd *watchdog.Watchdog)) {
	t.Helper()
	runFixture(t, name, func(b *fixture) {
		b.cfg.Budget = watchdog.Budget{Idle: 4 * time.Second}
		if with != nil {
			with(&b.cfg)
		}
		wd := b.attach()
		b.pass(2 * time.Second)
		b.clock.suspend(6 * time.Second)
		test(b, wd)
	})
}

// idled checks that the run has ended for a silence of that length.
func idled(b *fixture, wd *watchdog.Watchdog, silent time.Duration) {
	b.t.Helper()
	require.NotNil(b.t, wd.Stop())
	require.Equal(b.t, watchdog.IdleExceeded, wd.Stop().Code)
	require.Equal(b.t, silent.Truncate(time.Microsecond), wd.Stop().Elapsed)
}

// TestPausedGuard protects that a pause of the guard is nobody's silence.
func TestPausedGuard(t *testing.T) {
	runPaused(t, "a sign in the grace begins the silence again", nil, func(b *fixture, wd *watchdog.Watchdog) {
		b.pass(2*time.Second + 1) // here the timer rings
		b.live(wd)
		b.pass(time.Second - 1)
		wd.Activity()
		b.pass(4 * time.Second)
		b.live(wd)
		b.pass(1)
		idled(b, wd, 4*time.Second+1)
	})
	runPaused(t, "without one it is silent since the last sign", nil, func(b *fixture, wd *watchdog.Watchdog) {
		b.pass(2*time.Second + 1)
		b.pass(time.Second - 1)
		b.live(wd)
		b.pass(1)
		idled(b, wd, 11*time.Second+1)
	})
	runPaused(t, "a poll before the timer has rung ends nothing", nil, func(b *fixture, wd *watchdog.Watchdog) {
		b.live(wd)
		wd.Activity()
		b.pass(4 * time.Second)
		b.live(wd)
		b.pass(1)
		idled(b, wd, 4*time.Second+1)
	})
	runPaused(t, "three late rings have a grace, and no more", nil, func(b *fixture, wd *watchdog.Watchdog) {
		b.pass(2*time.Second + 1)
		for range 2 {
			b.clock.suspend(6 * time.Second)
			b.pass(time.Second)
			b.live(wd)
		}
		b.clock.suspend(6 * time.Second)
		b.pass(time.Second)
		idled(b, wd, 31*time.Second+1)
	})
	runPaused(t, "no progress has one, too", func(cfg *watchdog.Config) {
		cfg.Budget = watchdog.Budget{NoProgress: 4 * time.Second}
	}, func(b *fixture, wd *watchdog.Watchdog) {
		b.pass(2*time.Second + 1)
		wd.Activity()
		b.live(wd)
		b.pass(time.Second)
		require.Equal(b.t, watchdog.NoProgressExceeded, wd.Stop().Code)
	})
	runPaused(t, "the wall clock has none", func(cfg *watchdog.Config) {
		cfg.Budget.WallClock = 7 * time.Second
	}, func(b *fixture, wd *watchdog.Watchdog) { b.stopped(wd) })
	runPaused(t, "nor has a run that is only polled: nobody knows when that was meant", func(cfg *watchdog.Config) {
		cfg.PollOnly = true
	}, func(b *fixture, wd *watchdog.Watchdog) {
		require.True(b.t, hasFired(wd))
		idled(b, wd, 8*time.Second)
	})
	runFixture(t, "a layer and the silence that a hold allows have one", func(b *fixture) {
		wd := b.attach()
		layer := openLayer(t, wd, "l", watchdog.Budget{Idle: 4 * time.Second})
		openHold(t, wd, "h", watchdog.HoldLimit{Cap: time.Hour, Idle: 4 * time.Second})
		b.clock.suspend(6 * time.Second)
		b.pass(4*time.Second + 1)
		b.live(wd)
		b.live(layer)
		b.pass(time.Second)
		idled(b, layer, 11*time.Second+1)
		idled(b, wd, 11*time.Second+1)
	})
}
