package watchdog_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func TestLadderEndsInWait(t *testing.T) {
	const wait, retry = watchdog.DirectiveWait, watchdog.DirectiveRetry
	ladders := func(idle ...watchdog.DirectiveKind) watchdog.Config {
		return watchdog.Config{Budget: watchdog.Budget{
			WallClock: watchdog.NoLimit, Idle: minute, Ladders: watchdog.Ladders{Idle: idle},
		}}
	}
	t.Run("each stretch of silence gives one, and never a cancel", func(t *testing.T) {
		inBubble(t, ladders(wait), func(wd *watchdog.Watchdog, store *flakyStore) {
			for n := range 3 {
				after(minute)
				require.Equal(t, n, countEvents(t, store, watchdog.EventWait))
				after(1)
				require.Equal(t, n+1, countEvents(t, store, watchdog.EventWait), "by the timer")
				require.Equal(t, []watchdog.DirectiveKind{wait}, askedOf(wd))
				after(24 * time.Hour)
				require.Empty(t, askedOf(wd))
				wd.Activity()
			}
			requireRunning(t, wd)
			require.Equal(t, 3, countEvents(t, store, watchdog.EventWait))
			require.Equal(t, 3, countEvents(t, store, watchdog.EventWarning))
		})
	})
	t.Run("for no progress a stretch ends with progress, and not with activity or a hold", func(t *testing.T) {
		cfg := watchdog.Config{Budget: watchdog.Budget{
			WallClock: watchdog.NoLimit, NoProgress: minute, Ladders: watchdog.Ladders{NoProgress: many(wait, 1)},
		}}
		inBubble(t, cfg, func(wd *watchdog.Watchdog, store *flakyStore) {
			after(minute + 1)
			require.Equal(t, []watchdog.DirectiveKind{wait}, askedOf(wd))
			for range 10 {
				wd.Activity()
				openHold(t, wd, "tool").Close()
				after(2 * minute)
				require.Empty(t, askedOf(wd))
			}
			wd.Progress()
			after(minute + 1)
			require.Equal(t, 2, countEvents(t, store, watchdog.EventWait), "by the timer")
			require.Equal(t, []watchdog.DirectiveKind{wait}, askedOf(wd))
			requireRunning(t, wd)
		})
	})
}

// TestWaitsAreBounded protects the memory of a run that waits often, and the size of the event of its next progress: a
// wait takes the place of the one before, and progress puts the ladder back for whoever attaches.
func TestWaitsAreBounded(t *testing.T) {
	inFixture(t, func(b *fixture) {
		b.cfg.PollOnly = true
		b.cfg.Budget = watchdog.Budget{WallClock: watchdog.NoLimit, Idle: minute, Ladders: watchdog.Ladders{
			Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveWait},
		}}
		wd := b.attach()
		for range 50 {
			b.pass(minute + 1)
			wd.Fired()
			wd.Activity()
		}
		require.Len(t, b.events(watchdog.EventWait), 49)
		wd.Progress()
		wd.Fired()
		progress := b.events(watchdog.EventProgress)
		require.Len(t, progress, 1)
		var payload struct{ Resets []string }
		require.NoError(t, json.Unmarshal(progress[0].Payload, &payload))
		require.Len(t, payload.Resets, 2, "the retry and the last wait")
		again := b.attach()
		b.pass(minute + 1)
		_, _ = again.Fired()
		require.Len(t, b.events(watchdog.EventRetry), 2, "the ladder is back at its first rung")
	})
}

func TestObserveOnlyOnce(t *testing.T) {
	for name, c := range map[string]struct {
		budget watchdog.Budget
		end    func(wd *watchdog.Watchdog) // of the stretch
	}{
		"of silence": {
			watchdog.Budget{WallClock: watchdog.NoLimit, Idle: minute}, (*watchdog.Watchdog).Activity,
		},
		"without progress": {
			watchdog.Budget{WallClock: watchdog.NoLimit, NoProgress: minute}, (*watchdog.Watchdog).Progress,
		},
	} {
		t.Run("a stretch "+name+" is reported once", func(t *testing.T) {
			cfg := watchdog.Config{ObserveOnly: true, Budget: c.budget}
			inBubble(t, cfg, func(wd *watchdog.Watchdog, store *flakyStore) {
				for n := range 3 {
					after(minute + 1)
					require.Equal(t, n+1, countEvents(t, store, watchdog.EventWarning), "by the timer")
					after(time.Hour)
					d, _ := wd.Poll()
					require.Equal(t, watchdog.DirectiveCancel, d.Kind)
					require.True(t, d.ObserveOnly)
					require.Empty(t, askedOf(wd))
					require.Equal(t, n+1, countEvents(t, store, watchdog.EventWarning))
					c.end(wd)
				}
				requireRunning(t, wd)
			})
		})
	}
	t.Run("a hold is reported once over its cap, and once for each silence", func(t *testing.T) {
		cfg := watchdog.Config{ObserveOnly: true, Budget: watchdog.Budget{WallClock: watchdog.NoLimit}}
		inBubble(t, cfg, func(wd *watchdog.Watchdog, store *flakyStore) {
			_, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{Cap: 10 * minute, Idle: minute})
			require.NoError(t, err)
			after(time.Hour)
			wd.Activity()
			after(time.Hour)
			require.Len(t, askedOf(wd), 3)
			require.Equal(t, 3, countEvents(t, store, watchdog.EventWarning))
			requireRunning(t, wd)
		})
	})
}
