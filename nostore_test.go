package watchdog_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
)

func TestNoStore(t *testing.T) {
	t.Run("the zero run begins now, under an ID of its own and the default limits", func(t *testing.T) {
		for _, attach := range []attachFunc{watchdog.New, watchdog.Resume} {
			synctest.Test(t, func(t *testing.T) {
				wd, err := attach(t.Context(), watchdog.Run{}, watchdog.Config{Logger: quiet})
				require.NoError(t, err)
				defer wd.Close()
				require.Regexp(t, `^[0-9a-f-]{36}$`, wd.ID())
				require.Equal(t, time.Now().UTC(), wd.StartedAt())
				time.Sleep(watchdog.DefaultWallClock)
				require.NoError(t, wd.Context().Err())
				time.Sleep(time.Nanosecond)
				<-wd.Context().Done()
				require.Equal(t, wd.ID(), wd.Stop().RunID)
			})
		}
	})
	runSynced(t, "what its stop says can be done, and so of a layer of a run that has a store", func(t *testing.T) {
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1"}, watchdog.Config{Logger: quiet})
		require.NoError(t, err)
		defer wd.Close()
		stored, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-2", StartedAt: time.Now()},
			watchdog.Config{Logger: quiet, Store: &watchdog.Memory{}})
		require.NoError(t, err)
		defer stored.Close()
		inner, err := stored.Layer("step", watchdog.Budget{WallClock: time.Hour})
		require.NoError(t, err)
		defer inner.Close()
		layer, err := wd.Layer("step", watchdog.Budget{WallClock: time.Hour})
		require.NoError(t, err)
		defer layer.Close()
		const then = ", in the window that started at 2000-01-01T00:00:00Z; begin again, or raise the limit if it needs longer"
		time.Sleep(time.Hour + 1)
		require.EqualError(t, layer.Stop(),
			"run s-1/step stopped: watchdog_wall_clock_exceeded: ran 1 h 0 min 0 s of 1 h"+then)
		require.ErrorContains(t, inner.Stop(), then)
		<-wd.Context().Done()
		require.ErrorContains(t, stored.Stop(), "; resume the run to go on")
		require.EqualError(t, context.Cause(wd.Context()),
			"run s-1 stopped: watchdog_wall_clock_exceeded: ran 4 h 0 min 0 s of 4 h"+then)
	})
	t.Run("nor does it name a limit where there was none, or one of time where it counts", func(t *testing.T) {
		const begin, more = "; begin again", "; begin again, or raise the limit if it needs more"
		for _, c := range []struct {
			then string
			end  func(wd *watchdog.Watchdog)
		}{
			{begin, func(wd *watchdog.Watchdog) {
				_, err := wd.Cancel(watchdog.Cancellation{Reason: watchdog.CommandTerminal})
				require.NoError(t, err)
			}},
			{begin, func(wd *watchdog.Watchdog) {
				for wd.Context().Err() == nil {
					wd.Step(loop.Step{Tool: "x", Input: []byte("a"), Outcome: []byte("b")})
					wd.Poll()
				}
			}},
			{more, func(wd *watchdog.Watchdog) {
				_, err := wd.Admit(t.Context(), "", watchdog.Amount{Turns: 2})
				require.ErrorIs(t, err, watchdog.TurnsExceeded)
			}},
		} {
			wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{
				Logger: quiet, Budget: watchdog.Budget{Spend: watchdog.Spend{Turns: 1}},
			})
			require.NoError(t, err)
			c.end(wd)
			<-wd.Context().Done()
			require.True(t, strings.HasSuffix(wd.Stop().Error(), c.then), "%v", wd.Stop())
			require.NoError(t, wd.Close())
		}
	})
	runFixture(t, "an ID and a start that are given count", func(b *fixture) {
		b.cfg.Store = nil
		b.pass(time.Hour)
		wd := b.attach()
		require.Equal(b.t, b.run.ID, wd.ID())
		require.Equal(b.t, noon, wd.StartedAt())
		require.Equal(b.t, 3*time.Hour, wd.Remaining())
	})
	t.Run("an ID or a start that is given can be wrong", func(t *testing.T) {
		b := newFixture(t)
		b.cfg.Store = nil
		for _, run := range []watchdog.Run{
			{ID: " "}, {ID: "a\x00b"}, {StartedAt: noon.Add(time.Hour)}, {StartedAt: time.Unix(-1, 0)}, {Parent: "a\nb"},
		} {
			_, err := watchdog.New(t.Context(), run, b.cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid, "%v", run)
		}
	})
	runFixture(t, "a run of the same name shares nothing with one before", func(b *fixture) {
		b.cfg.Store = nil
		wd := b.attach()
		require.NoError(b.t, wd.Complete())
		b.live(b.attach())
		stopped := b.attach()
		_, err := stopped.Cancel(watchdog.Cancellation{Reason: "host_gone"})
		require.NoError(b.t, err)
		b.live(b.attach())
		b.live(b.resume())
	})
}
