package watchdog_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClockSet(t *testing.T) {
	for _, step := range []time.Duration{2 * time.Hour, -2 * time.Hour} {
		t.Run("by "+step.String(), func(t *testing.T) {
			inFixture(t, func(b *fixture) {
				wd := b.attach()
				b.pass(time.Hour)
				b.clock.step(step)
				require.Equal(t, time.Hour, wd.Elapsed())
				b.pass(3 * time.Hour)
				b.live(wd)
				b.pass(1)
				b.stopped(wd)
			})
		})
	}
	t.Run("on a clock that only shows the time a step back stops nothing and loses nothing", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Clock, b.cfg.PollOnly = b.clock.Mock, true
			wd := b.attach()
			b.pass(time.Hour)
			require.Equal(t, time.Hour, wd.Elapsed())
			b.clock.Set(noon.Add(-time.Hour))
			require.Equal(t, time.Hour, wd.Elapsed())
			b.pass(3 * time.Hour)
			b.live(wd)
			b.pass(1)
			b.stopped(wd)
		})
	})
}

func TestClockSleep(t *testing.T) {
	t.Run("a deadline that passed in a sleep is seen within a minute, without a poll", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			b.pass(time.Hour)
			b.clock.suspend(8 * time.Hour)
			b.pass(time.Minute)
			require.Error(t, wd.Context().Err())
			require.GreaterOrEqual(t, b.stopped(wd).Elapsed, 9*time.Hour)
		})
	})
	t.Run("a poll sees it at once", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.PollOnly = true
			wd := b.attach()
			b.clock.suspend(8 * time.Hour)
			b.stopped(wd)
		})
	})
	t.Run("a sleep within the budget is only time used", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			b.clock.suspend(2 * time.Hour)
			b.pass(2 * time.Hour)
			b.live(wd)
			b.pass(time.Minute)
			b.stopped(wd)
		})
	})
}
