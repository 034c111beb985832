package watchdog_test

import (
	"context"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func TestExtend(t *testing.T) {
	t.Run("it gives a running window more time, recorded", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			b.pass(3 * time.Hour)
			require.NoError(t, wd.Extend(2*time.Hour))
			require.Equal(t, 3*time.Hour, wd.Remaining())
			require.Len(t, b.events(watchdog.EventExtend), 1)
			b.pass(3 * time.Hour)
			b.live(wd)
			b.pass(1)
			require.Equal(t, 6*time.Hour, b.stopped(wd).Budget)
		})
	})
	t.Run("nor is one that is cancelled elsewhere while it is recorded", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			operator := b.attach()
			cancel := func() { _, _ = operator.Cancel(watchdog.Cancellation{Reason: watchdog.IterationTimeout}) }
			b.cfg.Store = &cancelledMeanwhile{EventStore: b.store, cancel: cancel}
			wd := b.attach()
			require.ErrorIs(t, wd.Extend(time.Hour), watchdog.ErrEnded)
			require.ErrorIs(t, context.Cause(wd.Context()), watchdog.IterationTimeout)
		})
	})
	t.Run("nor is one that is closed while it is recorded", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			hang := make(chan struct{})
			b.store.set(func(s *flakyStore) { s.hang = hang })
			wd, extended := b.attach(), make(chan error, 1)
			go func() { extended <- wd.Extend(time.Hour) }()
			synctest.Wait()
			require.NoError(t, wd.Close())
			close(hang)
			require.ErrorIs(t, <-extended, watchdog.ErrClosed)
		})
	})
	t.Run("lengths that make no sense are refused and nothing is written", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			wd := b.attach()
			for _, d := range []time.Duration{0, 999, -time.Hour, math.MaxInt64, math.MaxInt64 - time.Hour} {
				require.ErrorIs(t, wd.Extend(d), watchdog.ErrInvalid, d)
			}
			b.cfg.Budget.WallClock = watchdog.NoLimit
			require.ErrorIs(t, b.attach().Extend(time.Hour), watchdog.ErrInvalid)
			require.Empty(t, b.events(watchdog.EventExtend))
		})
	})
}

// A cancelledMeanwhile is a store in which another process cancels the run just before the first append.
type cancelledMeanwhile struct {
	watchdog.EventStore
	cancel func()
}

func (s *cancelledMeanwhile) Append(ctx context.Context, events ...watchdog.Event) error {
	if s.cancel != nil {
		s.cancel()
		s.cancel = nil
	}
	return s.EventStore.Append(ctx, events...)
}

func TestWarnings(t *testing.T) {
	warned := func(b *fixture) func() []float64 {
		told := make(chan float64, 16)
		b.cfg.OnWarning = func(w watchdog.Warning) { told <- w.Fraction }
		return func() (fractions []float64) {
			synctest.Wait()
			for len(told) > 0 {
				fractions = append(fractions, <-told)
			}
			return fractions
		}
	}
	t.Run("one comes when 80 % are used, recorded, once for all processes", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			told := warned(b)
			b.attach()
			other := b.attach()
			b.pass(192*time.Minute - 1)
			require.Empty(t, told())
			b.pass(1)
			require.Equal(t, []float64{0.8, 0.8}, told(), "each process tells its host")
			require.Len(t, b.events(watchdog.EventWarning), 1)
			require.NoError(t, other.Close())
			b.attach()
			require.Empty(t, told(), "a warning that was recorded before the attach is not given again")
		})
	})
	t.Run("each fraction gives one, in order, also when a sleep passed several", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget.WarnAt = []float64{0.9, 0.25, 0.5}
			told := warned(b)
			b.attach()
			b.clock.suspend(3 * time.Hour)
			b.pass(time.Minute)
			require.Equal(t, []float64{0.25, 0.5}, told())
			b.pass(35 * time.Minute)
			require.Equal(t, []float64{0.9}, told())
			require.Len(t, b.events(watchdog.EventWarning), 3)
		})
	})
	t.Run("after an extension they count anew", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			told := warned(b)
			wd := b.attach()
			b.pass(193 * time.Minute)
			require.Len(t, told(), 1)
			require.NoError(t, wd.Extend(4*time.Hour))
			b.pass(190 * time.Minute)
			require.Empty(t, told())
			b.pass(time.Minute)
			require.Len(t, told(), 1)
			require.Len(t, b.events(watchdog.EventWarning), 2)
		})
	})
	t.Run("they tell what is left, less the reserve", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget.Reserve = 8 * time.Minute
			var got watchdog.Warning
			b.cfg.PollOnly, b.cfg.OnWarning = true, func(w watchdog.Warning) { got = w }
			wd := b.attach()
			b.pass(192 * time.Minute)
			b.live(wd)
			require.Equal(t, watchdog.Warning{
				RunID: "s-1", Fraction: 0.8, Elapsed: 192 * time.Minute, Budget: 4 * time.Hour,
				Remaining: 40 * time.Minute, At: noon.Add(192 * time.Minute),
			}, got)
		})
	})
	t.Run("a host that panics, hangs or has a full disk is told and does no harm", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.OnWarning = func(watchdog.Warning) { panic("host") }
			b.store.set(func(s *flakyStore) { s.fail = errDiskFull })
			b.attach()
			hang := make(chan struct{})
			b.cfg.OnWarning = func(watchdog.Warning) { <-hang }
			wd := b.attach()
			b.pass(over)
			b.stopped(wd)
			b.store.set(func(s *flakyStore) { s.fail = nil })
			require.NoError(t, wd.Close(), "Close does not wait for the host")
			close(hang)
		})
	})
}
