package watchdog_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func TestObserve(t *testing.T) {
	kinds := watchdog.Kinds{Material: []string{"step.done"}, Activity: []string{"token"}, Ignored: []string{"metrics"}}
	cfg := watchdog.Config{Kinds: kinds, Budget: watchdog.Budget{Idle: minute, NoProgress: 10 * minute}}
	feed := func(wd *watchdog.Watchdog, kind string, d time.Duration) {
		for ; d > 0; d -= 30 * time.Second {
			after(30 * time.Second)
			wd.Observe(kind)
		}
	}
	t.Run("material kinds are progress, active ones activity, ignored ones nothing", func(t *testing.T) {
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			feed(wd, "step.done", time.Hour)
			requireRunning(t, wd)
			feed(wd, "token", 8*minute)
			requireRunning(t, wd)
			require.Equal(t, watchdog.ClassIgnored, wd.Observe("metrics"))
			after(minute + 1)
			requireStop(t, wd, watchdog.IdleExceeded)
		})
	})
	t.Run("unknown kinds get what the host chose", func(t *testing.T) {
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			require.Equal(t, watchdog.ClassIgnored, wd.Observe("other"))
		})
		chosen := cfg
		chosen.Kinds.Unknown = watchdog.ClassMaterial
		inBubble(t, chosen, func(wd *watchdog.Watchdog, _ *flakyStore) {
			require.Equal(t, watchdog.ClassMaterial, wd.Observe("other"))
		})
	})
	t.Run("the watchdog's own events are never a signal", func(t *testing.T) {
		chosen := cfg
		chosen.Kinds.Unknown = watchdog.ClassMaterial
		inBubble(t, chosen, func(wd *watchdog.Watchdog, _ *flakyStore) {
			feed(wd, watchdog.EventWarning, 2*minute)
			requireStop(t, wd, watchdog.IdleExceeded)
		})
	})
	t.Run("kinds that contradict each other are refused", func(t *testing.T) {
		for name, kinds := range map[string]watchdog.Kinds{
			"twice":                {Material: []string{"a"}, Ignored: []string{"a"}},
			"empty":                {Material: []string{" "}},
			"its own":              {Activity: []string{watchdog.EventWait}},
			"a class that is none": {Unknown: "loud"},
		} {
			_, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: &watchdog.Memory{}, Kinds: kinds,
			})
			require.ErrorIs(t, err, watchdog.ErrInvalid, name)
		}
	})
}
