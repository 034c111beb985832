package watchdog_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func TestHold(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{Idle: 10 * minute, NoProgress: 20 * minute}}
	t.Run("a person's approval that takes three hours does not trip idle; the wall clock still ends the run", func(t *testing.T) {
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			_, err := wd.Hold(context.Background(), "approval", watchdog.HoldLimit{Cap: watchdog.NoLimit})
			require.NoError(t, err)
			after(3 * time.Hour)
			requireRunning(t, wd)
			after(time.Hour + 1)
			requireStop(t, wd, watchdog.WallClockExceeded)
		})
	})
	t.Run("its cap trips by itself and names it", func(t *testing.T) {
		inBubble(t, cfg, func(wd *watchdog.Watchdog, store *flakyStore) {
			_, err := wd.Hold(context.Background(), "tool: grep", watchdog.HoldLimit{Cap: 2 * time.Hour})
			require.NoError(t, err)
			after(2 * time.Hour)
			requireRunning(t, wd)
			after(1)
			stop := requireStop(t, wd, watchdog.HoldExceeded)
			require.Equal(t, "tool: grep", stop.Hold)
			require.ErrorContains(t, stop, "tool: grep")
			require.Contains(t, payloads(t, store, watchdog.EventCancel), `"hold":"tool: grep"`)
		})
	})
	t.Run("it closes exactly once, also by its context", func(t *testing.T) {
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			ctx, cancel := context.WithCancel(context.Background())
			h, err := wd.Hold(ctx, "tool", watchdog.HoldLimit{})
			require.NoError(t, err)
			cancel()
			synctest.Wait()
			require.False(t, h.Close())
			again, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{})
			require.NoError(t, err, "its key is free")
			require.False(t, h.Close(), "and the old one does not close the new")
			after(time.Hour)
			requireRunning(t, wd)
			require.True(t, again.Close())
			require.False(t, again.Close())
		})
	})
	t.Run("keys and caps that make no sense are refused", func(t *testing.T) {
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			for _, key := range []string{"", "a\nb", strings.Repeat("x", 256)} {
				_, err := wd.Hold(context.Background(), key, watchdog.HoldLimit{})
				require.ErrorIs(t, err, watchdog.ErrInvalid)
			}
			_, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{Cap: -1})
			require.ErrorIs(t, err, watchdog.ErrInvalid)
		})
	})
}

func TestDuring(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{Idle: 10 * minute}}
	t.Run("a hold does not outlive its scope, left by a return or a panic", func(t *testing.T) {
		errTool := errors.New("tool failed")
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			work := func(context.Context) error { after(time.Hour); return errTool }
			require.ErrorIs(t, wd.During(wd.Context(), "tool", watchdog.HoldLimit{}, work), errTool)
			require.Panics(t, func() {
				wd.During(wd.Context(), "tool", watchdog.HoldLimit{}, func(context.Context) error { panic("tool") })
			})
			requireRunning(t, wd)
			after(10*minute + 1)
			requireStop(t, wd, watchdog.IdleExceeded)
		})
	})
	t.Run("work whose hold is refused is not begun", func(t *testing.T) {
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			require.NoError(t, wd.Close())
			err := wd.During(context.Background(), "tool", watchdog.HoldLimit{}, func(context.Context) error { panic("begun") })
			require.ErrorIs(t, err, watchdog.ErrEnded)
		})
	})
	t.Run("without a watchdog the work is done all the same", func(t *testing.T) {
		done := false
		none := watchdog.FromContext(context.Background())
		require.NoError(t,
			none.During(context.Background(), "tool", watchdog.HoldLimit{}, func(context.Context) error { done = true; return nil }))
		require.True(t, done)
	})
}
