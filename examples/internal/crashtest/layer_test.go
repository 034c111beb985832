package crashtest_test

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func TestLayer(t *testing.T) {
	t.Parallel()
	attach := func() command {
		c := heldRun()
		c.Budget = watchdog.Budget{WallClock: time.Hour}
		return c
	}
	step := func(budget time.Duration) command {
		return command{Do: "layer", Key: "step", Budget: watchdog.Budget{WallClock: budget}}
	}
	t.Run("of two processes with a layer of one name, the cancel of one leaves the other as it is", func(t *testing.T) {
		t.Parallel()
		database, attach := filepath.Join(t.TempDir(), "events.db"), attach()
		short, long := startHost(t, database), startHost(t, database)
		for _, p := range []*process{short, long} {
			p.tell(attach)
		}
		long.tell(step(time.Minute))
		for range 3 {
			short.tell(step(30 * time.Millisecond))
			a, ok := short.ask(command{Do: "end"})
			require.True(t, ok)
			require.Equal(t, watchdog.WallClockExceeded, a.Stop.Code)
			require.Nil(t, long.tell(command{Do: "sync"}).Stop)
			short.kill()
			short = startHost(t, database)
			require.Nil(t, short.tell(attach).Stop)
		}
		long.tell(command{Do: "complete"})
		short.tell(step(time.Minute))
		require.Nil(t, short.tell(command{Do: "sync"}).Stop)
		short.kill()
		long.kill()
		ends := windowsOf(t, readHistory(t, database, "run/step"))
		require.Len(t, ends, 4)
		require.Empty(t, readHistory(t, database, "run").events)
	})
	t.Run("killed at random moments, no two share a window", func(t *testing.T) {
		t.Parallel()
		database, attach := filepath.Join(t.TempDir(), "events.db"), attach()
		ended := 0
		for range rounds / 2 {
			hosts := []*process{startHost(t, database), startHost(t, database)}
			var all sync.WaitGroup
			ends := make([]bool, len(hosts))
			for i, p := range hosts {
				require.Nil(t, p.tell(attach).Stop)
				all.Go(func() {
					if _, ok := p.ask(step(15 * time.Millisecond)); !ok {
						return
					}
					timer := &killTimer{p: p}
					defer timer.stop()
					timer.start(time.Duration(rand.IntN(40_000)) * time.Microsecond)
					a, ok := p.ask(command{Do: "end"})
					ends[i] = ok && a.Stop != nil
				})
			}
			all.Wait()
			for i, p := range hosts {
				p.cmd.Process.Kill()
				p.wait()
				if ends[i] {
					ended++
				}
			}
		}
		windows := windowsOf(t, readHistory(t, database, "run/step"))
		require.GreaterOrEqual(t, len(windows), ended)
		t.Logf("%d windows, %d of them reported", len(windows), ended)
	})
}

// windowsOf returns the names of the windows that have an end. Each has one.
func windowsOf(t *testing.T, h *history) map[string]bool {
	t.Helper()
	windows := map[string]bool{}
	for _, e := range h.events {
		var payload struct {
			Window string `json:"window"`
			Parent string `json:"parent"`
		}
		require.NoError(t, json.Unmarshal(e.Payload, &payload))
		require.Equal(t, "run", payload.Parent)
		require.NotEmpty(t, payload.Window)
		if e.Type == watchdog.EventCancel || e.Type == watchdog.EventComplete {
			require.NotContains(t, windows, payload.Window, "a window has one end")
			windows[payload.Window] = true
		}
	}
	return windows
}
