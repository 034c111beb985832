package watchdog_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
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
