package crashtest_test

import (
	"encoding/json"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// approval is the key of the hold in these tests.
const approval = "approval"

// heldRun is a command to attach to a run.
func heldRun() command {
	return command{
		Do: "attach", Run: watchdog.Run{ID: "run", StartedAt: time.Now().UTC().Truncate(time.Microsecond)},
		Budget: watchdog.Budget{WallClock: time.Hour},
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	holdFor := func(limit time.Duration) command { return command{Do: "hold", Key: approval, Cap: limit} }
	stored := command{Do: "await", Key: watchdog.EventHold}

	t.Run("the wall clock stands still while no process is there, and whoever holds next takes the hold over", func(t *testing.T) {
		t.Parallel()
		database, attach := filepath.Join(t.TempDir(), "events.db"), heldRun()
		p := startHost(t, database)
		p.tell(attach)
		p.tell(holdFor(time.Hour))
		p.tell(stored)
		p.kill()
		before := remaining(t, readHistory(t, database, "run"), attach)
		time.Sleep(300 * time.Millisecond)
		p = startHost(t, database)
		require.InDelta(t, before, p.tell(attach).Remaining, float64(time.Microsecond))
		p.tell(holdFor(2 * time.Hour))
		again, ok := p.ask(holdFor(time.Hour))
		require.True(t, ok)
		require.True(t, again.Held, "it is taken over once: %s", again.Err)
		require.InDelta(t, before, p.tell(command{Do: "look"}).Remaining, float64(time.Microsecond))
		p.tell(command{Do: "release"})
		p.tell(command{Do: "await", Key: watchdog.EventRelease})
		p.kill()
		p = startHost(t, database)
		require.Less(t, p.tell(attach).Remaining, before)
		p.kill()
		require.Equal(t, 1, count(readHistory(t, database, "run"), watchdog.EventHold))
	})
	for name, takesOver := range map[string]bool{"whoever took it over": true, "if nobody takes it over": false} {
		t.Run("its cap trips as ever, "+name, func(t *testing.T) {
			t.Parallel()
			const limit = 600 * time.Millisecond
			database, attach := filepath.Join(t.TempDir(), "events.db"), heldRun()
			p := startHost(t, database)
			p.tell(attach)
			opened := time.Now()
			p.tell(holdFor(limit))
			p.tell(stored)
			p.kill()
			p = startHost(t, database)
			p.tell(attach)
			if takesOver {
				p.tell(holdFor(time.Hour))
			}
			a, ok := p.ask(command{Do: "end"})
			require.True(t, ok)
			require.NotNil(t, a.Stop, a.Err)
			require.Equal(t, watchdog.HoldExceeded, a.Stop.Code)
			require.Equal(t, approval, a.Stop.Hold)
			require.GreaterOrEqual(t, time.Since(opened), limit)
			p.kill()
		})
	}
	t.Run("killed at random moments, each process finds the pause that the events tell of", func(t *testing.T) {
		t.Parallel()
		database, attach := filepath.Join(t.TempDir(), "events.db"), heldRun()
		for range rounds {
			p := startHost(t, database)
			before := remaining(t, readHistory(t, database, "run"), attach)
			left := p.tell(attach).Remaining
			after := remaining(t, readHistory(t, database, "run"), attach)
			const skew = 2 * time.Millisecond // between what wall clocks and the child's count of time show
			require.LessOrEqual(t, left, before+skew)
			require.GreaterOrEqual(t, left, after-skew)
			p.tell(holdFor(time.Hour))
			if rand.IntN(2) == 0 {
				p.tell(command{Do: "release", After: time.Duration(rand.IntN(20)) * time.Millisecond})
			}
			time.Sleep(time.Duration(rand.IntN(5_000)) * time.Microsecond)
			p.kill()
			time.Sleep(time.Duration(rand.IntN(30)) * time.Millisecond)
		}
	})
	t.Run("a hold that another live process opened and closed ends no run", func(t *testing.T) {
		t.Parallel()
		const limit = 600 * time.Millisecond
		database, attach := filepath.Join(t.TempDir(), "events.db"), heldRun()
		owner, other := startHost(t, database), startHost(t, database)
		owner.tell(attach)
		owner.tell(holdFor(limit))
		owner.tell(stored)
		other.tell(attach)
		owner.tell(command{Do: "release"})
		owner.tell(command{Do: "await", Key: watchdog.EventRelease})
		time.Sleep(2 * limit)
		for _, p := range []*process{other, owner} {
			a := p.tell(command{Do: "look"})
			require.Nil(t, a.Stop)
			require.Positive(t, a.Remaining)
		}
		require.InDelta(t, owner.tell(command{Do: "look"}).Remaining, other.tell(command{Do: "look"}).Remaining, 50e6)
		owner.kill()
		other.kill()
		require.Zero(t, count(readHistory(t, database, "run"), watchdog.EventCancel))
	})
}

// remaining is what is left of the run now, by its events. Holds of one key do not overlap.
func remaining(t *testing.T, h *history, attach command) time.Duration {
	t.Helper()
	now := time.Since(attach.Run.StartedAt)
	opened, worked := map[string]time.Duration{}, now
	for _, e := range h.events {
		var payload struct {
			Opened   float64 `json:"opened_seconds"`
			Released float64 `json:"released_seconds"`
			Opening  string  `json:"opening"`
		}
		require.NoError(t, json.Unmarshal(e.Payload, &payload))
		switch e.Type {
		case watchdog.EventHold:
			opened[e.ID] = seconds(payload.Opened)
			worked -= now - opened[e.ID]
		case watchdog.EventRelease:
			require.Contains(t, opened, payload.Opening)
			worked += now - seconds(payload.Released)
		}
	}
	return attach.Budget.WallClock - worked
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }
