package sweep_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

func TestMaxCancellationsPerMinute(t *testing.T) {
	t.Run("has full passes follow one another, and no minute with more", func(t *testing.T) {
		for _, perRun := range []int64{0, 1, 7, 30, watchdog.NoLimit} {
			inBubble(t, func(f *fixture) {
				f.putStalled(200)
				f.cfg.StartupDelay, f.cfg.MaxCancellationsPerRun, f.cfg.MaxCancellationsPerMinute = watchdog.None, perRun, 30
				var at []time.Time
				f.onCancel = func(context.Context, session.Session) error { at = append(at, time.Now()); return nil }
				stop := f.run()
				f.advance(8 * time.Minute)
				stop()
				require.Len(f, f.ended(), 200)
				require.LessOrEqual(f, at[199].Sub(at[0]), 7*time.Minute)
				for i := 30; i < len(at); i++ {
					require.GreaterOrEqual(f, at[i].Sub(at[i-30]), time.Minute)
				}
			})
		}
	})
	subtest(t, "holds for passes of Sweep", func(f *fixture) {
		f.putStalled(50)
		f.cfg.MaxCancellationsPerMinute = 15
		require.Equal(f, 10, f.pass().Cancelled)
		require.Equal(f, 5, f.pass().Cancelled)
		require.Zero(f, f.pass().Cancelled)
		f.advance(time.Minute)
		require.Equal(f, 10, f.pass().Cancelled)
	})
	subtest(t, "waits for a minute that has room", func(f *fixture) {
		f.putStalled(31)
		f.cfg.StartupDelay, f.cfg.MaxCancellationsPerRun = watchdog.None, watchdog.NoLimit
		f.cfg.MaxCancellationsPerMinute = 30
		require.Equal(f, 30, f.pass().Cancelled)
		f.advance(30 * time.Second)
		stop := f.run()
		f.advance(30*time.Second - 1)
		require.Equal(f, 2, f.sweeper().Stats().Passes)
		f.advance(1)
		stop()
		require.Len(f, f.ended(), 31)
	})
	subtest(t, "passes that are not full come after the interval", func(f *fixture) {
		f.cfg.StartupDelay, f.cfg.MaxCancellationsPerMinute = watchdog.None, 30
		f.putStalled(5)
		stop := f.run()
		f.advance(5*time.Minute - 1)
		stop()
		require.Equal(f, 1, f.sweeper().Stats().Passes)
	})
}
