package watchdog_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// openIdle opens a hold that limits the silence.
func openIdle(t *testing.T, wd *watchdog.Watchdog, key string, idle time.Duration) *watchdog.Hold {
	t.Helper()
	h, err := wd.Hold(context.Background(), key, watchdog.HoldLimit{Cap: watchdog.NoLimit, Idle: idle})
	require.NoError(t, err)
	return h
}

// requireIdleOf checks that the run was stopped for a silence that was longer than the hold allows.
func requireIdleOf(t *testing.T, wd *watchdog.Watchdog, key string, idle time.Duration) {
	t.Helper()
	stop := requireStop(t, wd, watchdog.IdleExceeded)
	require.Equal(t, key, stop.Hold)
	require.Equal(t, idle, stop.Budget)
	require.ErrorContains(t, stop, fmt.Sprintf("in hold %q", key))
}

func TestHoldIdle(t *testing.T) {
	endless := watchdog.Config{Budget: watchdog.Budget{WallClock: watchdog.NoLimit}}
	limits := map[string]watchdog.Config{
		"where the run has no limit of silence": endless,
		"where the run has a shorter one":       {Budget: watchdog.Budget{WallClock: watchdog.NoLimit, Idle: time.Second}},
		"where the run has a longer one": {Budget: watchdog.Budget{
			WallClock: watchdog.NoLimit, Idle: time.Hour, NoProgress: time.Hour, FromFirstSign: true, FirstSign: 2 * time.Hour,
		}},
		"where the run is traced": {
			Budget: watchdog.Budget{WallClock: watchdog.NoLimit}, OnSignal: func(watchdog.Signal) {},
		},
	}
	for where, cfg := range limits {
		t.Run("a sub-agent that streams lives until the cap "+where, func(t *testing.T) {
			inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
				_, err := wd.Hold(context.Background(), "agent", watchdog.HoldLimit{Cap: 2 * time.Hour, Idle: minute})
				require.NoError(t, err)
				every := 50 * time.Second
				if cfg.OnSignal == nil && cfg.Budget.Idle == 0 {
					every = 20 * time.Millisecond
				}
				for range 2 * time.Hour / every {
					time.Sleep(every)
					wd.Activity()
				}
				synctest.Wait()
				requireRunning(t, wd)
				after(1)
				require.Equal(t, "agent", requireStop(t, wd, watchdog.HoldExceeded).Hold)
			})
		})
		t.Run("one that is silent for more than its limit ends "+where, func(t *testing.T) {
			inBubble(t, cfg, func(wd *watchdog.Watchdog, store *flakyStore) {
				openIdle(t, wd, "agent", minute)
				after(30 * time.Second)
				wd.Activity()
				after(minute)
				requireRunning(t, wd)
				after(1)
				requireIdleOf(t, wd, "agent", minute)
				require.Contains(t, payloads(t, store, watchdog.EventCancel), `"reason":"idle_exceeded"`)
				require.Contains(t, payloads(t, store, watchdog.EventCancel), `"hold":"agent"`)
			})
		})
	}
	t.Run("its trips are on the ladder of idle, which needs no limit of the run's", func(t *testing.T) {
		cfg := endless
		cfg.Budget.Ladders.Idle = []watchdog.DirectiveKind{watchdog.DirectiveRetry}
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			openIdle(t, wd, "tool", minute)
			after(minute + 1)
			d, _ := wd.Poll()
			require.Equal(t, watchdog.DirectiveRetry, d.Kind)
			require.Equal(t, "tool", d.Hold)
			wd.Progress()
			after(minute + 1)
			d, _ = wd.Poll()
			require.Equal(t, watchdog.DirectiveRetry, d.Kind, "progress puts it back")
			after(minute + 1)
			requireIdleOf(t, wd, "tool", minute)
		})
	})
	t.Run("a negative one is refused and named", func(t *testing.T) {
		inBubble(t, endless, func(wd *watchdog.Watchdog, _ *flakyStore) {
			_, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{Idle: -1})
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, "Idle is -1ns")
		})
	})
	t.Run("in a run that nothing guards it limits nothing", func(t *testing.T) {
		inBubble(t, watchdog.Config{Disabled: true}, func(wd *watchdog.Watchdog, _ *flakyStore) {
			openIdle(t, wd, "tool", minute)
			after(time.Hour)
			requireRunning(t, wd)
		})
	})
}

// TestHoldIdleRace opens holds that limit the silence while others signal: signals count from the first of them on.
func TestHoldIdleRace(t *testing.T) {
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
		Store: &watchdog.Memory{}, Logger: quiet,
	})
	require.NoError(t, err)
	defer wd.Close()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 100 {
				wd.Activity()
				wd.ProgressDigest("same")
				h, err := wd.Hold(context.Background(), fmt.Sprint(i), watchdog.HoldLimit{Idle: time.Hour})
				if err == nil {
					h.Close()
				}
				wd.SinceActivity()
			}
		})
	}
	all.Wait()
	require.NoError(t, wd.Context().Err())
	require.Less(t, wd.SinceActivity(), time.Hour)
}
