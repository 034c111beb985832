package watchdog_test

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// inBubble guards a run on the bubble's own clock, which is that of a host.
func inBubble(
	t *testing.T, cfg watchdog.Config, test func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore),
) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &flakyStore{}
		cfg.Store = store
		test(t, guard(t, cfg), store)
	})
}

// runBubble is inBubble for one case of a test.
func runBubble(
	t *testing.T, name string, cfg watchdog.Config, test func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore),
) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		inBubble(t, cfg, test)
	})
}

// after lets time pass and everything happen that it sets off.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func requireRunning(t *testing.T, wd *watchdog.Watchdog) {
	t.Helper()
	require.NoError(t, wd.Context().Err(), "%v", context.Cause(wd.Context()))
	_, fired := wd.Fired()
	require.False(t, fired)
}

func requireStop(t *testing.T, wd *watchdog.Watchdog, want watchdog.StopReason) *watchdog.Stop {
	t.Helper()
	require.ErrorIs(t, context.Cause(wd.Context()), want)
	reason, fired := wd.Fired()
	require.True(t, fired)
	require.Equal(t, want, reason)
	return wd.Stop()
}

const minute = time.Minute

func TestIdle(t *testing.T) {
	idle := watchdog.Config{Budget: watchdog.Budget{Idle: 10 * minute}}
	runBubble(t, "signs within a millisecond of the first never make it fire early", idle, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		wd.Activity()
		after(900 * time.Microsecond)
		wd.Activity()
		after(10 * minute)
		requireRunning(t, wd)
		after(100 * time.Microsecond)
		requireRunning(t, wd)
		after(1)
		requireStop(t, wd, watchdog.IdleExceeded)
	})
	runBubble(t, "signals to a run without such a limit, to one that has ended and to none at all do nothing", watchdog.Config{}, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		for _, w := range []*watchdog.Watchdog{wd, watchdog.FromContext(context.Background())} {
			w.Activity()
			w.Progress()
			require.True(t, w.ProgressDigest("d"))
			w.Note("n")
			w.Observe("k")
		}
		require.NoError(t, wd.Close())
		wd.Activity()
	})
}

func TestNoProgress(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{Idle: minute, NoProgress: 10 * minute}}
	runBubble(t, "the memory for digests is bounded: the oldest are forgotten", cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		for i := range 1025 {
			require.True(t, wd.ProgressDigest(fmt.Sprint(i)))
		}
		require.False(t, wd.ProgressDigest("1"), "of 1,025 only the first is forgotten")
		require.True(t, wd.ProgressDigest("0"))
	})
}

// TestNote protects that the last one, also of a layer, stands in the stop, its error and its event.
func TestNote(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{Idle: minute}}
	inBubble(t, cfg, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
		wd.Note("plan")
		openLayer(t, wd, "step", watchdog.Budget{}).Note("tool: grep")
		after(2 * minute)
		stop := requireStop(t, wd, watchdog.IdleExceeded)
		require.Equal(t, "tool: grep", stop.Note)
		require.ErrorContains(t, stop, "tool: grep")
		require.Contains(t, payloads(t, store, watchdog.EventCancel), `"note":"tool: grep"`)
	})
}

func TestSignalsConcurrent(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{Idle: minute, NoProgress: time.Hour}}
	inBubble(t, cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				for j := range 1000 {
					wd.Activity()
					wd.Note("n")
					wd.ProgressDigest(fmt.Sprint(i, j))
					time.Sleep(time.Second)
				}
			})
		}
		all.Wait()
		requireRunning(t, wd)
		after(minute + 1)
		requireStop(t, wd, watchdog.IdleExceeded)
	})
}

// payloads returns the payloads of the run's events of one kind.
func payloads(t *testing.T, store watchdog.EventStore, kind string) (all string) {
	t.Helper()
	events, err := store.Read(context.Background(), watchdog.AggregateType, "s-1")
	require.NoError(t, err)
	for _, e := range events {
		if e.Type == kind {
			all += string(e.Payload) + "\n"
		}
	}
	return all
}

func TestLongNote(t *testing.T) {
	for _, c := range []struct{ name, noted, want string }{
		{"is kept as it is", "read_file", "read_file"},
		{"has spaces for control characters", "a\nb\x00c", "a b c"},
		{"has one mark for a stretch of invalid UTF-8", "a\xff\xfe\xfdb", "a\uFFFDb"},
		{"keeps 200 characters, however long each is", strings.Repeat("𝄞", 300), strings.Repeat("𝄞", 200)},
		{"keeps what the first KiB says", strings.Repeat("\xff", 1020) + "abcdef", "\uFFFDabcd"},
		{"does not cut a character in two", strings.Repeat("\xff", 1022) + "𝄞", "\uFFFD"},
		{"keeps a mark that the host wrote", "a\uFFFD", "a\uFFFD"},
	} {
		runBubble(t, c.name, watchdog.Config{}, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
			wd.Note(c.noted)
			require.Equal(t, c.want, wd.LastNote())
			require.True(t, utf8.ValidString(wd.LastNote()))
		})
	}
	t.Run("costs the same however long it is", func(t *testing.T) {
		long := strings.Repeat("\xff", 64<<20)
		inBubble(t, watchdog.Config{}, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			wd.Note(long)
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
		})
	})
}

func TestObserve(t *testing.T) {
	kinds := watchdog.Kinds{Material: []string{"step.done"}, Activity: []string{"token"}, Ignored: []string{"metrics"}}
	cfg := watchdog.Config{Kinds: kinds, Budget: watchdog.Budget{Idle: minute, NoProgress: 10 * minute}}
	feed := func(wd *watchdog.Watchdog, kind string, d time.Duration) {
		for ; d > 0; d -= 30 * time.Second {
			after(30 * time.Second)
			wd.Observe(kind)
		}
	}
	runBubble(t, "material kinds are progress, active ones activity, ignored ones nothing", cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		feed(wd, "step.done", time.Hour)
		requireRunning(t, wd)
		feed(wd, "token", 8*minute)
		requireRunning(t, wd)
		require.Equal(t, watchdog.ClassIgnored, wd.Observe("metrics"))
		after(minute + 1)
		requireStop(t, wd, watchdog.IdleExceeded)
	})
	t.Run("unknown kinds get what the host chose", func(t *testing.T) {
		inBubble(t, cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
			require.Equal(t, watchdog.ClassIgnored, wd.Observe("other"))
		})
		chosen := cfg
		chosen.Kinds.Unknown = watchdog.ClassMaterial
		inBubble(t, chosen, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
			require.Equal(t, watchdog.ClassMaterial, wd.Observe("other"))
		})
	})
	t.Run("the watchdog's own events are never a signal", func(t *testing.T) {
		chosen := cfg
		chosen.Kinds.Unknown = watchdog.ClassMaterial
		inBubble(t, chosen, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
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
