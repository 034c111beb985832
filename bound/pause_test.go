package bound_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
)

// TestPause has a call's limit stand still while the wall clock of its run does.
func TestPause(t *testing.T) {
	const minute = time.Minute
	// approve opens a hold that stops the wall clock of the run.
	approve := func(t *testing.T, wd *watchdog.Watchdog, limit time.Duration) *watchdog.Hold {
		t.Helper()
		h, err := wd.Hold(context.Background(), "approval", watchdog.HoldLimit{Cap: limit, PausesWallClock: true})
		require.NoError(t, err)
		return h
	}
	tenMinutes := bound.Call{Limit: 10 * minute}
	for name, c := range map[string]struct {
		call  bound.Call
		lasts time.Duration // with the pauses
		pause func(t *testing.T, wd *watchdog.Watchdog)
	}{
		"in which there is none":     {tenMinutes, 10 * minute, func(*testing.T, *watchdog.Watchdog) {}},
		"that is over by its end":    {tenMinutes, 15 * minute, func(t *testing.T, wd *watchdog.Watchdog) { during(5*minute, approve(t, wd, time.Hour)) }},
		"that goes on after its end": {tenMinutes, 70 * minute, func(t *testing.T, wd *watchdog.Watchdog) { during(time.Hour, approve(t, wd, 24*time.Hour)) }},
		"that begins a moment before its end, which is not looked for all the time": {tenMinutes, 70 * minute, func(t *testing.T, wd *watchdog.Watchdog) {
			time.Sleep(10*minute - 1)
			during(time.Hour, approve(t, wd, 24*time.Hour))
		}},
		"that its cap ends": {tenMinutes, 50 * minute, func(t *testing.T, wd *watchdog.Watchdog) { approve(t, wd, 40*minute) }},
		"of which there are two": {tenMinutes, 30 * minute, func(t *testing.T, wd *watchdog.Watchdog) {
			for range 2 {
				during(10*minute, approve(t, wd, time.Hour))
				time.Sleep(minute)
			}
		}},
		"of a layer": {tenMinutes, 70 * minute, func(t *testing.T, wd *watchdog.Watchdog) {
			layer, err := wd.Layer("beside", watchdog.Budget{})
			require.NoError(t, err)
			during(time.Hour, approve(t, layer, 24*time.Hour))
			require.NoError(t, layer.Close())
		}},
		"of the layer's hold, which ends with the layer": {tenMinutes, 70 * minute, func(t *testing.T, wd *watchdog.Watchdog) {
			layer, err := wd.Layer("beside", watchdog.Budget{})
			require.NoError(t, err)
			approve(t, layer, 24*time.Hour)
			time.Sleep(time.Hour)
			require.NoError(t, layer.Close())
		}},
		"in what is left of the run": {bound.Call{Limit: 5 * time.Hour}, 90 * minute, func(t *testing.T, wd *watchdog.Watchdog) {
			during(time.Hour, approve(t, wd, 24*time.Hour))
		}},
	} {
		bubble(t, "a pause "+name, func(t *testing.T) {
			ladders := watchdog.Ladders{Hold: []watchdog.DirectiveKind{watchdog.DirectiveWait}}
			wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{
				Budget: watchdog.Budget{WallClock: 31 * minute, Reserve: minute, Ladders: ladders},
			})
			require.NoError(t, err)
			defer wd.Close()
			began := time.Now()
			go c.pause(t, wd)
			out := bound.Do(wd.Context(), c.call, obeying)
			require.Equal(t, bound.LayerSoft, out.Layer)
			require.Equal(t, c.lasts, time.Since(began).Truncate(time.Millisecond))
			require.Equal(t, min(c.call.Limit, 30*minute), out.Elapsed.Truncate(time.Millisecond))
			synctest.Wait()
		})
	}
	bubble(t, "a call that begins in one", func(t *testing.T) {
		wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{})
		require.NoError(t, err)
		defer wd.Close()
		h := approve(t, wd, 24*time.Hour)
		time.Sleep(time.Hour)
		began := time.Now()
		go during(20*minute, h)
		out := bound.Do(wd.Context(), tenMinutes, func(ctx context.Context) (string, error) {
			end, _ := ctx.Deadline()
			require.Equal(t, 10*minute, end.Sub(began), "no context's deadline moves")
			return obeying(ctx)
		})
		require.Equal(t, bound.LayerSoft, out.Layer)
		require.Equal(t, 30*minute, time.Since(began).Truncate(time.Millisecond))
	})
	bubble(t, "a call that returns in one, after its limit, is in time", func(t *testing.T) {
		wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{})
		require.NoError(t, err)
		defer wd.Close()
		h := approve(t, wd, 24*time.Hour)
		out := bound.Do(wd.Context(), tenMinutes, ignoring(time.Hour, nil))
		require.Equal(t, bound.LayerNone, out.Layer)
		require.NoError(t, out.Err)
		require.Zero(t, out.Elapsed)
		require.True(t, h.Close())
	})
	bubble(t, "calls that return in one, after their limit, and nothing of them is kept", func(t *testing.T) {
		wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{})
		require.NoError(t, err)
		defer wd.Close()
		approve(t, wd, 24*time.Hour)
		const calls, size = 100, 1 << 20
		before := heap()
		for range calls {
			ctx := context.WithValue(wd.Context(), key{}, make([]byte, size))
			out := bound.Do(ctx, bound.Call{Limit: time.Second}, ignoring(2*time.Second, nil))
			require.Equal(t, bound.LayerNone, out.Layer)
		}
		require.Less(t, heap(), before+calls*size/4)
	})
}

type key struct{}

func heap() int {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc) //nolint:gosec // far from overflowing
}

// during has a hold open for so long.
func during(d time.Duration, h *watchdog.Hold) {
	time.Sleep(d)
	h.Close()
}
