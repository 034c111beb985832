package watchdog_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/replay"
)

// approve opens a hold that stops the wall clock of the run.
func approve(t *testing.T, wd *watchdog.Watchdog, limit time.Duration) *watchdog.Hold {
	t.Helper()
	h, err := wd.Hold(context.Background(), "approval "+limit.String(), watchdog.HoldLimit{Cap: limit, PausesWallClock: true})
	require.NoError(t, err)
	return h
}

// TestPauseOfLayers has what is inside a run stand still with it: what is left of a layer is left of its run.
func TestPauseOfLayers(t *testing.T) {
	hour := watchdog.Config{Budget: watchdog.Budget{WallClock: time.Hour}}
	step := watchdog.Budget{WallClock: 10 * minute}
	// each has the layer made, the run stand still for an hour, and 10 minutes left of the layer then.
	for name, pause := range map[string]func(wd *watchdog.Watchdog) (layer *watchdog.Watchdog){
		"a layer that began before the pause": func(wd *watchdog.Watchdog) *watchdog.Watchdog {
			layer := openLayer(t, wd, "step", step)
			h := approve(t, wd, 24*time.Hour)
			after(time.Hour)
			require.True(t, h.Close())
			return layer
		},
		"a layer that began in the pause": func(wd *watchdog.Watchdog) *watchdog.Watchdog {
			h := approve(t, wd, 24*time.Hour)
			after(30 * minute)
			layer := openLayer(t, wd, "step", step)
			after(30 * minute)
			require.True(t, h.Close())
			return layer
		},
		"a layer of a layer": func(wd *watchdog.Watchdog) *watchdog.Watchdog {
			around := openLayer(t, wd, "around", watchdog.Budget{})
			h := approve(t, wd, 24*time.Hour)
			after(30 * minute)
			layer := openLayer(t, around, "step", step)
			after(30 * minute)
			require.True(t, h.Close())
			return layer
		},
		"a layer beside the one of the hold": func(wd *watchdog.Watchdog) *watchdog.Watchdog {
			layer := openLayer(t, wd, "step", step)
			beside := openLayer(t, openLayer(t, wd, "around", watchdog.Budget{}), "beside", watchdog.Budget{})
			h := approve(t, beside, 24*time.Hour)
			after(time.Hour)
			require.True(t, h.Close())
			require.NoError(t, beside.Close())
			return layer
		},
		"the pause ends with the layer of its hold": func(wd *watchdog.Watchdog) *watchdog.Watchdog {
			layer, beside := openLayer(t, wd, "step", step), openLayer(t, wd, "beside", watchdog.Budget{})
			approve(t, beside, 24*time.Hour)
			after(time.Hour)
			require.NoError(t, beside.Close())
			return layer
		},
		"pauses of the layer and of its run that overlap are a union": func(wd *watchdog.Watchdog) *watchdog.Watchdog {
			layer := openLayer(t, wd, "step", step)
			own := approve(t, layer, 24*time.Hour)
			after(20 * minute)
			around := approve(t, wd, 24*time.Hour)
			after(20 * minute)
			require.True(t, own.Close())
			after(20 * minute)
			require.True(t, around.Close())
			return layer
		},
		"the cap ends the pause of both": func(wd *watchdog.Watchdog) *watchdog.Watchdog {
			layer := openLayer(t, wd, "step", step)
			_, err := wd.Hold(context.Background(), "approval", watchdog.HoldLimit{Cap: time.Hour, PausesWallClock: true})
			require.NoError(t, err)
			after(time.Hour)
			return layer
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, hour, func(wd *watchdog.Watchdog, _ *flakyStore) {
				layer := pause(wd)
				require.Equal(t, 10*minute, layer.Remaining())
				if name == "the cap ends the pause of both" { // which ends the run, too
					return
				}
				require.Equal(t, time.Hour, wd.Remaining())
				after(10 * minute)
				requireRunning(t, layer)
				after(time.Millisecond)
				stop := requireStop(t, layer, watchdog.WallClockExceeded)
				require.Equal(t, 10*minute, stop.Elapsed.Truncate(time.Millisecond))
				requireRunning(t, wd)
			})
		})
	}
	t.Run("a layer without a limit of its own ends with what is left of the run", func(t *testing.T) {
		inBubble(t, hour, func(wd *watchdog.Watchdog, _ *flakyStore) {
			after(50 * minute)
			h := approve(t, wd, 24*time.Hour)
			layer := openLayer(t, wd, "step", watchdog.Budget{})
			after(2 * time.Hour)
			requireRunning(t, layer)
			require.True(t, h.Close())
			after(10 * minute)
			requireRunning(t, layer)
			after(time.Millisecond)
			requireStop(t, wd, watchdog.WallClockExceeded)
			require.Error(t, layer.Context().Err())
		})
	})
	t.Run("polling sees it as well", func(t *testing.T) {
		cfg := hour
		cfg.PollOnly = true
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			layer := openLayer(t, wd, "step", step)
			h := approve(t, wd, 24*time.Hour)
			after(time.Hour)
			requireRunning(t, layer)
			require.True(t, h.Close())
			after(10*minute + 1)
			_, fired := layer.Fired()
			require.True(t, fired)
		})
	})
	t.Run("a trace of the layer replays", func(t *testing.T) {
		var trace []watchdog.Signal
		cfg := hour
		cfg.OnSignal = func(s watchdog.Signal) { trace = append(trace, s) }
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			layer := openLayer(t, wd, "step", step)
			h := approve(t, wd, 24*time.Hour)
			after(time.Hour)
			require.True(t, h.Close())
			after(time.Hour)
			requireStop(t, layer, watchdog.WallClockExceeded)
		})
		var own []watchdog.Signal
		for _, s := range trace {
			if s.Run == "s-1/step" {
				own = append(own, s)
			}
		}
		decided, err := replay.Run(step, own, false)
		require.NoError(t, err)
		require.Len(t, decided, 2, "a warning and the stop")
		require.Equal(t, 70*minute, decided[1].At.Truncate(time.Millisecond))
	})
}

// TestPauseOfManyLayers has pauses of many layers leave nothing behind.
func TestPauseOfManyLayers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{Budget: watchdog.Budget{WallClock: time.Hour}, Logger: quiet})
		require.NoError(t, err)
		defer wd.Close()
		var layers []*watchdog.Watchdog
		for range 100 {
			layers = append(layers, openLayer(t, wd, "step", watchdog.Budget{}))
		}
		for _, layer := range layers {
			h := approve(t, layer, time.Hour)
			after(time.Minute)
			require.True(t, h.Close())
		}
		for _, layer := range layers {
			require.Equal(t, wd.Remaining(), layer.Remaining())
			require.NoError(t, layer.Close())
		}
		require.Equal(t, time.Hour, wd.Remaining())
	})
}
