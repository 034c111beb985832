package watchdog_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

var noCap = watchdog.HoldLimit{Cap: watchdog.NoLimit}

// openHold opens a hold that only its close or its run's end closes.
func openHold(t *testing.T, wd *watchdog.Watchdog, key string) *watchdog.Hold {
	t.Helper()
	h, err := wd.Hold(context.Background(), key, noCap)
	require.NoError(t, err)
	return h
}

// openLayer makes a layer, which ends with its run.
func openLayer(t *testing.T, wd *watchdog.Watchdog, name string, budget watchdog.Budget) *watchdog.Watchdog {
	t.Helper()
	layer, err := wd.Layer(name, budget)
	require.NoError(t, err)
	return layer
}

// requireIdleFrom checks that the run's idle limit of 20 minutes began at this moment.
func requireIdleFrom(t *testing.T, wd *watchdog.Watchdog) {
	t.Helper()
	after(20 * minute)
	requireRunning(t, wd)
	after(1)
	_, _ = wd.Fired()
	requireStop(t, wd, watchdog.IdleExceeded)
}

func TestHoldOfLayer(t *testing.T) {
	session := watchdog.Config{Budget: watchdog.Budget{WallClock: watchdog.NoLimit, Idle: 20 * minute}}
	t.Run("it holds every run around, until it is closed", func(t *testing.T) {
		inBubble(t, session, func(wd *watchdog.Watchdog, _ *flakyStore) {
			step := openLayer(t, wd, "build", watchdog.Budget{Idle: 20 * minute})
			hold := openHold(t, openLayer(t, step, "grep", watchdog.Budget{}), "tool")
			after(time.Hour)
			requireRunning(t, wd)
			requireRunning(t, step)
			require.True(t, hold.Close())
			after(20*minute + 1)
			requireStop(t, wd, watchdog.IdleExceeded)
		})
	})
	t.Run("its close releases the run around also if a subscriber ends the goroutine", func(t *testing.T) {
		cfg := session
		cfg.PollOnly = true
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			step := openLayer(t, wd, "build", watchdog.Budget{Ladders: watchdog.Ladders{Hold: many(watchdog.DirectiveWait, 1)}})
			step.Subscribe(func(watchdog.Directive) { runtime.Goexit() })
			hold, err := step.Hold(context.Background(), "tool", watchdog.HoldLimit{Cap: minute})
			require.NoError(t, err)
			after(minute + 1)
			go hold.Close()
			synctest.Wait()
			requireIdleFrom(t, wd)
		})
	})
}

func TestHoldEndsWithLayer(t *testing.T) {
	session := watchdog.Config{Budget: watchdog.Budget{WallClock: watchdog.NoLimit, Idle: 20 * minute}}
	ends := map[string]func(t *testing.T, step *watchdog.Watchdog){
		"is closed":      func(t *testing.T, step *watchdog.Watchdog) { require.NoError(t, step.Close()) },
		"is interrupted": func(t *testing.T, step *watchdog.Watchdog) { require.NoError(t, step.Interrupt("SIGINT")) },
		"is stopped": func(t *testing.T, step *watchdog.Watchdog) {
			after(time.Hour + 1)
			_, fired := step.Fired()
			require.True(t, fired)
		},
		"is cancelled by another guard": func(t *testing.T, step *watchdog.Watchdog) {
			_, err := step.Cancel(watchdog.Cancellation{Reason: watchdog.CommandNoOutput})
			require.NoError(t, err)
		},
	}
	for name, end := range ends {
		for _, pollOnly := range []bool{false, true} {
			mode := map[bool]string{false: " with a timer", true: " without one"}[pollOnly]
			session.PollOnly = pollOnly
			t.Run("when it "+name+mode, func(t *testing.T) {
				inBubble(t, session, func(wd *watchdog.Watchdog, _ *flakyStore) {
					step := openLayer(t, wd, "build", watchdog.Budget{WallClock: time.Hour})
					hold := openHold(t, step, "tool")
					end(t, step)
					require.False(t, hold.Close())
					requireIdleFrom(t, wd)
				})
			})
			t.Run("when the layer around it "+name+mode, func(t *testing.T) {
				inBubble(t, session, func(wd *watchdog.Watchdog, _ *flakyStore) {
					step := openLayer(t, wd, "build", watchdog.Budget{WallClock: time.Hour})
					hold := openHold(t, openLayer(t, step, "grep", watchdog.Budget{}), "tool")
					end(t, step)
					synctest.Wait()
					require.False(t, hold.Close())
					requireIdleFrom(t, wd)
				})
			})
		}
	}
	t.Run("also if it is opened at that moment", func(t *testing.T) {
		session.PollOnly = false
		for range 200 {
			inBubble(t, session, func(wd *watchdog.Watchdog, _ *flakyStore) {
				step := openLayer(t, wd, "build", watchdog.Budget{})
				go step.Close()
				_, _ = step.Hold(wd.Context(), "tool", noCap)
				after(minute)
				require.Equal(t, minute, wd.SinceActivity(), "the run is held")
			})
		}
	})
}
