package watchdog_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

var approval = watchdog.HoldLimit{Cap: 24 * time.Hour, PausesWallClock: true}

// TestPausedWallClock protects that a person's approval does not use up the run's time, and that a hold which stops the
// wall clock is bounded, recorded and found again.
func TestPausedWallClock(t *testing.T) {
	approval := watchdog.HoldLimit{Cap: 3 * time.Hour, PausesWallClock: true}
	inPause := func(t *testing.T, test func(b *fixture, wd *watchdog.Watchdog, h *watchdog.Hold)) {
		t.Helper()
		inFixture(t, func(b *fixture) {
			b.cfg.Budget = watchdog.Budget{WallClock: time.Hour, Reserve: 10 * time.Minute}
			wd := b.attach()
			b.pass(30 * time.Minute)
			h, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			synctest.Wait()
			test(b, wd, h)
		})
	}
	t.Run("it stands still while the hold is open", func(t *testing.T) {
		inPause(t, func(b *fixture, wd *watchdog.Watchdog, h *watchdog.Hold) {
			b.pass(2 * time.Hour)
			require.Equal(b.t, 20*time.Minute, wd.Remaining())
			require.Equal(b.t, 150*time.Minute, wd.Elapsed())
			require.True(b.t, h.Close())
			synctest.Wait()
			b.pass(30 * time.Minute)
			require.Equal(b.t, []watchdog.DirectiveKind{watchdog.DirectiveWrapUp}, askedOf(wd))
			b.live(wd)
			b.pass(1)
			stop := b.stopped(wd)
			require.Equal(b.t, time.Hour, stop.Elapsed.Truncate(time.Second))
			require.Equal(b.t, 2*time.Hour, stop.Paused)
			require.Contains(b.t, string(b.events(watchdog.EventCancel)[0].Payload), `"paused_seconds":7200`)
			require.Equal(b.t, stop, b.attach().Stop())
		})
	})
	t.Run("for its cap at most, which trips by itself", func(t *testing.T) {
		inPause(t, func(b *fixture, wd *watchdog.Watchdog, _ *watchdog.Hold) {
			b.pass(3*time.Hour + 1)
			require.Equal(b.t, watchdog.HoldExceeded, wd.Stop().Code)
			require.Equal(b.t, "approval", wd.Stop().Hold)
		})
	})
	t.Run("in a run that is only observed not beyond its cap", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.Budget, b.cfg.ObserveOnly = watchdog.Budget{WallClock: time.Hour}, true
			wd := b.attach()
			_, err := wd.Hold(context.Background(), "approval", approval)
			require.NoError(b.t, err)
			b.pass(3*time.Hour + 30*time.Minute)
			require.Equal(b.t, 30*time.Minute, wd.Remaining())
		})
	})
	for name, crash := range map[string]bool{"a crash": true, "a close": false} {
		t.Run("after "+name+" the hold is open, and whoever opens it again takes it over", func(t *testing.T) {
			inPause(t, func(b *fixture, wd *watchdog.Watchdog, _ *watchdog.Hold) {
				b.pass(30 * time.Minute)
				wd = b.restartAfter(wd, time.Hour, crash)
				require.Equal(b.t, 20*time.Minute, wd.Remaining(), "the time the process was gone is paused, too")
				h, err := wd.Hold(context.Background(), "approval", watchdog.HoldLimit{Cap: 9 * time.Hour})
				require.NoError(b.t, err)
				_, err = wd.Hold(context.Background(), "approval", approval)
				require.ErrorIs(b.t, err, watchdog.ErrHeld)
				b.pass(time.Hour)
				require.True(b.t, h.Close())
				require.False(b.t, h.Close())
				synctest.Wait()
				b.pass(10 * time.Minute)
				require.Equal(b.t, 10*time.Minute, wd.Remaining())
				wd = b.restartAfter(wd, 5*time.Minute, crash)
				require.Equal(b.t, 5*time.Minute+10*time.Minute, b.cfg.Budget.WallClock-45*time.Minute)
				require.Equal(b.t, 5*time.Minute, wd.Remaining(), "less the reserve")
			})
		})
		t.Run("after "+name+" its cap trips as ever if nobody does", func(t *testing.T) {
			inPause(t, func(b *fixture, wd *watchdog.Watchdog, _ *watchdog.Hold) {
				wd = b.restartAfter(wd, time.Hour, crash)
				b.pass(2 * time.Hour)
				require.Nil(b.t, wd.Stop())
				b.pass(1)
				require.Equal(b.t, watchdog.HoldExceeded, wd.Stop().Code)
				require.Equal(b.t, 3*time.Hour+1, wd.Stop().Elapsed.Round(0)+1)
			})
		})
	}
	t.Run("it needs a cap", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			for _, limit := range []watchdog.HoldLimit{{PausesWallClock: true}, {PausesWallClock: true, Cap: watchdog.NoLimit}} {
				_, err := b.attach().Hold(context.Background(), "approval", limit)
				require.ErrorIs(b.t, err, watchdog.ErrInvalid)
				require.ErrorContains(b.t, err, "Cap")
			}
		})
	})
}
