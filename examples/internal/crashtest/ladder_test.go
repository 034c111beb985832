package crashtest_test

import (
	"cmp"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// ladder is what the idle limit of these tests asks for, one after another.
var ladder = []watchdog.DirectiveKind{
	watchdog.DirectiveRetry, watchdog.DirectiveUnstuck, watchdog.DirectiveCancel,
}

// idleRun is a command to attach to a run that is idle all the time.
func idleRun(idle time.Duration) command {
	return command{
		Do: "attach", Run: watchdog.Run{ID: "run", StartedAt: time.Now().UTC().Truncate(time.Microsecond)},
		Budget: watchdog.Budget{
			WallClock: time.Hour, Idle: idle, Ladders: watchdog.Ladders{Idle: ladder[:len(ladder)-1]},
		},
	}
}

func TestLadder(t *testing.T) {
	t.Parallel()
	t.Run("a run that hangs in every process is asked to retry, then to change its approach, then cancelled", func(t *testing.T) {
		t.Parallel()
		database, attach := filepath.Join(t.TempDir(), "events.db"), idleRun(200*time.Millisecond)
		for range 5 {
			given := 0 // by the processes before, which may have asked for more before they were dead
			if _, err := os.Stat(database); err == nil {
				given = len(asked(t, readHistory(t, database, "run")))
			}
			p := startHost(t, database)
			p.tell(attach)
			require.Equal(t, ladder[min(given, len(ladder)-1)], p.tell(command{Do: "ask"}).Asked)
			p.kill()
		}
		require.Equal(t, ladder, asked(t, readHistory(t, database, "run")))
	})
	t.Run("progress that was recorded begins it again", func(t *testing.T) {
		t.Parallel()
		database, attach := filepath.Join(t.TempDir(), "events.db"), idleRun(time.Second) // it is dead before it asks again
		want := append(slices.Clone(ladder[:2]), ladder...)
		for i, kind := range want {
			p := startHost(t, database)
			p.tell(attach)
			require.Equal(t, kind, p.tell(command{Do: "ask"}).Asked)
			if i == 1 {
				p.tell(command{Do: "progress"})
				p.tell(command{Do: "await", Key: watchdog.EventProgress})
			}
			p.kill()
		}
		require.Equal(t, want, asked(t, readHistory(t, database, "run")))
	})
	t.Run("killed at random moments, each process asks for the rung after the last that is stored", func(t *testing.T) {
		t.Parallel()
		for killed := 0; killed < rounds; {
			database, attach := filepath.Join(t.TempDir(), "events.db"), idleRun(20*time.Millisecond)
			for over := false; !over; killed++ {
				p := startHost(t, database)
				p.tell(attach)
				if rand.IntN(4) == 0 {
					p.tell(command{Do: "progress", After: time.Duration(rand.IntN(40)) * time.Millisecond})
				}
				time.Sleep(time.Duration(rand.IntN(30_000)) * time.Microsecond)
				p.kill()
				all := asked(t, readHistory(t, database, "run"))
				over = len(all) > 0 && all[len(all)-1] == watchdog.DirectiveCancel
			}
		}
	})
}

// asked returns the directives of a run in their order. It checks that each is that of the rung after the highest one
// that was given before and not put back by progress.
func asked(t *testing.T, h *history) (kinds []watchdog.DirectiveKind) {
	t.Helper()
	slices.SortStableFunc(h.events, func(a, b watchdog.Event) int { // one look can find progress and a trip
		return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(a.Type, b.Type))
	})
	standing := map[string]int{}
	for _, e := range h.events {
		var payload struct {
			Rung   int      `json:"attempt"`
			Resets []string `json:"resets"`
		}
		require.NoError(t, json.Unmarshal(e.Payload, &payload))
		switch e.Type {
		case watchdog.EventProgress:
			for _, id := range payload.Resets {
				require.Contains(t, standing, id, "progress puts back a directive that was given, once")
				delete(standing, id)
			}
		case watchdog.EventRetry, watchdog.EventUnstuck, watchdog.EventCancel:
			rung := 0
			for _, before := range standing {
				rung = max(rung, before)
			}
			require.Equal(t, rung+1, max(payload.Rung, 1), "the rung of %s", e.Payload)
			require.Equal(t, "runtime.watchdog."+string(ladder[rung]), e.Type)
			standing[e.ID] = rung + 1
			kinds = append(kinds, ladder[rung])
		}
	}
	return kinds
}
