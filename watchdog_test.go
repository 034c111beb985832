package watchdog_test

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
)

func TestWallClock(t *testing.T) {
	runFixture(t, "the stop tells what elapsed to the microsecond, as read from the store", func(b *fixture) {
		b.cfg.PollOnly = true
		wd := b.attach()
		b.pass(4*time.Hour + 1234567*time.Microsecond)
		require.Equal(b.t, 4*time.Hour+1234567*time.Microsecond, b.stopped(wd).Elapsed)
		require.Equal(b.t, wd.Stop(), b.attach().Stop())
	})
}

func TestPollOnly(t *testing.T) {
	b := newFixture(t)
	onCaller := false
	b.cfg.PollOnly, b.cfg.Store = true, beforeAppend(b.store, func() {
		stack := make([]byte, 1<<16)
		onCaller = strings.Contains(string(stack[:runtime.Stack(stack, false)]), "TestPollOnly")
	})
	b.clock.Add(5 * time.Hour)
	before := goroutines()
	b.stopped(b.attach())
	require.LessOrEqual(t, goroutines(), before)
	require.True(t, onCaller, "the store was called from another goroutine")
}

func TestClose(t *testing.T) {
	runFixture(t, "it ends the run without an event and can be called again", func(b *fixture) {
		wd := b.attach()
		require.NoError(b.t, wd.Close())
		require.NoError(b.t, wd.Close())
		require.ErrorIs(b.t, context.Cause(wd.Context()), watchdog.ErrClosed)
		b.pass(5 * time.Hour)
		require.False(b.t, hasFired(wd))
		require.Zero(b.t, wd.Remaining())
		require.Empty(b.t, b.events(event.Cancel))
	})
	t.Run("a thousand armed watchdogs are no goroutine, and none is left behind them", func(t *testing.T) {
		before := goroutines()
		for range 1000 {
			guard(t, watchdog.Config{Store: &watchdog.Memory{}})
		}
		require.LessOrEqual(t, goroutines(), before)
	})
}

// TestSlowAttach protects a run from what its store took to answer: the host could give no sign of life meanwhile. The
// wall clock and safety count it, because they are about real time.
func TestSlowAttach(t *testing.T) {
	const slow = 3 * time.Second
	for name, test := range map[string]struct {
		budget watchdog.Budget
		after  time.Duration // that the attach is done
	}{
		"idle begins when the attach is done": {watchdog.Budget{Idle: time.Second}, time.Second},
		"so does no progress":                 {watchdog.Budget{NoProgress: time.Second}, time.Second},
		"and the wait for a first sign": {
			watchdog.Budget{Idle: time.Hour, FirstSign: 2 * time.Second, FromFirstSign: true}, 2 * time.Second,
		},
		"the wall clock does not": {watchdog.Budget{WallClock: 5 * time.Second}, 5*time.Second - slow},
		"nor does safety":         {watchdog.Budget{Safety: 4 * time.Second}, 4*time.Second - slow},
	} {
		runSynced(t, name, func(t *testing.T) {
			store := &hookedStore{EventStore: &watchdog.Memory{}}
			store.read = func() error {
				store.read = nil
				time.Sleep(slow)
				return nil
			}
			cfg := watchdog.Config{Store: store, Budget: test.budget, Logger: quiet}
			began := time.Now()
			wd := attachTo(context.Background(), t, watchdog.Run{ID: "s-1", StartedAt: began}, cfg)
			require.GreaterOrEqual(t, time.Since(began), slow)
			time.Sleep(test.after - time.Since(began.Add(slow)))
			require.NoError(t, wd.Context().Err(), "at the limit itself it has not fired")
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			require.NotNil(t, wd.Stop())
		})
	}
}

func TestInputInvalid(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(b *fixture)
		want  error
		says  string
	}{
		{"an empty ID", func(b *fixture) { b.run.ID = "" }, watchdog.ErrInvalid, ""},
		{"a blank ID", func(b *fixture) { b.run.ID = " \t" }, watchdog.ErrInvalid, ""},
		{"an ID beyond the column", func(b *fixture) { b.run.ID = strings.Repeat("é", 256) }, watchdog.ErrInvalid, "256"},
		{"a control character in the ID", func(b *fixture) { b.run.ID = "a\x00b" }, watchdog.ErrInvalid, `"a\x00b"`},
		{"an ID that is not UTF-8", func(b *fixture) { b.run.ID = "a\xff" }, watchdog.ErrInvalid, "UTF-8"},
		{"a control character in the parent", func(b *fixture) { b.run.Parent = "a\nb" }, watchdog.ErrInvalid, "parent"},
		{"a line separator for an ID", func(b *fixture) { b.run.ID = "\u2028" }, watchdog.ErrInvalid, `it "\u2028" is empty but for white space`},
		{"a paragraph separator", func(b *fixture) { b.run.ID = "\u2029" }, watchdog.ErrInvalid, `it "\u2029" is empty but for white space`},
		{"a line feed", func(b *fixture) { b.run.ID = "\n" }, watchdog.ErrInvalid, `it "\n" is empty but for white space`},
		{"many spaces", func(b *fixture) { b.run.ID = strings.Repeat(" ", 256) }, watchdog.ErrInvalid, `it "` + strings.Repeat(" ", 24) + `" is empty`},
		{"a parent of a line separator", func(b *fixture) { b.run.Parent = "\u2028" }, watchdog.ErrInvalid, `the parent of run s-1 "\u2028" is empty but`},
		{"a start in the future", func(b *fixture) { b.run.StartedAt = noon.Add(watchdog.StartSkew + 1) }, watchdog.ErrInvalid, "2026-05-01T12:01:00Z"},
		{"a start before 1970", func(b *fixture) { b.run.StartedAt = time.Unix(-1, 0) }, watchdog.ErrInvalid, "1969"},
		{"a negative wall clock", func(b *fixture) { b.cfg.Budget.WallClock = -time.Second }, watchdog.ErrInvalid, "-1s"},
		{"a negative reserve", func(b *fixture) { b.cfg.Budget.Reserve = -time.Second }, watchdog.ErrInvalid, "-1s"},
		{"a reserve that leaves nothing", func(b *fixture) { b.cfg.Budget.Reserve = 4 * time.Hour }, watchdog.ErrInvalid, "4h0m0s"},
		{"a warning at nothing", func(b *fixture) { b.cfg.Budget.WarnAt = []float64{0} }, watchdog.ErrInvalid, "WarnAt"},
		{"a warning at the end", func(b *fixture) { b.cfg.Budget.WarnAt = []float64{1} }, watchdog.ErrInvalid, "WarnAt"},
		{"a warning at no number", func(b *fixture) { b.cfg.Budget.WarnAt = []float64{math.NaN()} }, watchdog.ErrInvalid, "NaN"},
		{"a warning twice", func(b *fixture) { b.cfg.Budget.WarnAt = []float64{0.5, 0.5} }, watchdog.ErrInvalid, "twice"},
		{"a negative record timeout", func(b *fixture) { b.cfg.RecordTimeout = -1 }, watchdog.ErrInvalid, "RecordTimeout"},
		{"a negative number of stops", func(b *fixture) { b.cfg.MaxStops = -1 }, watchdog.ErrInvalid, "MaxStops is -1"},
		{"a keeper and no store", func(b *fixture) { b.cfg.Store, b.cfg.Keeper = nil, &fakeKeeper{} }, watchdog.ErrInvalid, "set Store"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newFixture(t)
			c.spoil(b)
			for _, attach := range []attachFunc{watchdog.New, watchdog.Resume} {
				wd, err := attach(t.Context(), b.run, b.cfg)
				require.Nil(t, wd)
				require.ErrorIs(t, err, c.want)
				require.ErrorContains(t, err, c.says)
			}
			require.Zero(t, b.store.appends)
		})
	}
	t.Run("a parent that has ended already", func(t *testing.T) {
		b := newFixture(t)
		parent, end := context.WithCancelCause(t.Context())
		end(errHostGone)
		_, err := watchdog.New(parent, b.run, b.cfg)
		require.ErrorIs(t, err, watchdog.ErrParentEnded)
		require.ErrorIs(t, err, errHostGone)
		require.Zero(t, b.store.appends)
	})
}

func TestInputAccepted(t *testing.T) {
	runFixture(t, "a start in another zone is kept in UTC, to the microsecond", func(b *fixture) {
		b.run.StartedAt = noon.Add(-1001).In(time.FixedZone("", 2*3600))
		require.Equal(b.t, noon.Add(-2*time.Microsecond), b.attach().StartedAt())
	})
	runFixture(t, "a start a little ahead counts from now", func(b *fixture) {
		b.run.StartedAt = noon.Add(watchdog.StartSkew)
		wd := b.attach()
		require.Zero(b.t, wd.Elapsed())
		b.pass(over)
		b.stopped(wd)
	})
	runFixture(t, "the longest ID there may be", func(b *fixture) {
		b.run.ID = strings.Repeat("é", event.MaxAggregateID)
		b.attach()
		b.pass(over)
		require.Len(b.t, b.events(event.Cancel), 1)
	})
	t.Run("any character that is neither a control character nor only white space", func(t *testing.T) {
		for _, id := range []string{"a\u2028b", " a ", "\ufeff", "\u200b", "\u202ea"} {
			inFixture(t, func(b *fixture) {
				b.run.ID = id
				require.Equal(t, id, b.attach().ID())
			})
		}
	})
	runFixture(t, "the longest budget there may be", func(b *fixture) {
		b.cfg.Budget.WallClock = watchdog.NoLimit - 1
		b.live(b.attach())
	})
	runFixture(t, "a config that is changed later changes nothing", func(b *fixture) {
		b.cfg.Budget.WarnAt = []float64{0.5}
		b.attach()
		b.cfg.Budget.WarnAt[0] = 0.1
		b.pass(time.Hour)
		require.Empty(b.t, b.events(event.Warning))
	})
}

func TestNoStore(t *testing.T) {
	t.Run("the zero run begins now, under an ID of its own and the default limits", func(t *testing.T) {
		for _, attach := range []attachFunc{watchdog.New, watchdog.Resume} {
			synctest.Test(t, func(t *testing.T) {
				wd, err := attach(t.Context(), watchdog.Run{}, watchdog.Config{Logger: quiet})
				require.NoError(t, err)
				defer wd.Close()
				require.Regexp(t, `^[0-9a-f-]{36}$`, wd.ID())
				require.Equal(t, time.Now().UTC(), wd.StartedAt())
				time.Sleep(watchdog.DefaultWallClock)
				require.NoError(t, wd.Context().Err())
				time.Sleep(time.Nanosecond)
				<-wd.Context().Done()
				require.Equal(t, wd.ID(), wd.Stop().RunID)
			})
		}
	})
	runSynced(t, "what its stop says can be done, and so of a layer of a run that has a store", func(t *testing.T) {
		wd := attachTo(context.Background(), t, watchdog.Run{ID: "s-1"}, watchdog.Config{})
		stored := guard(t, watchdog.Config{Store: &watchdog.Memory{}})
		inner := openLayer(t, stored, "step", watchdog.Budget{WallClock: time.Hour})
		layer := openLayer(t, wd, "step", watchdog.Budget{WallClock: time.Hour})
		const then = ", in the window that started at 2000-01-01T00:00:00Z; begin again, or raise the limit if it needs longer"
		time.Sleep(time.Hour + 1)
		require.EqualError(t, layer.Stop(),
			"run s-1/step stopped: watchdog_wall_clock_exceeded: ran 1 h 0 min 0 s of 1 h"+then)
		require.ErrorContains(t, inner.Stop(), then)
		<-wd.Context().Done()
		require.ErrorContains(t, stored.Stop(), "; resume the run to go on")
		require.EqualError(t, context.Cause(wd.Context()),
			"run s-1 stopped: watchdog_wall_clock_exceeded: ran 4 h 0 min 0 s of 4 h"+then)
	})
	t.Run("nor does it name a limit where there was none, or one of time where it counts", func(t *testing.T) {
		const begin, more = "; begin again", "; begin again, or raise the limit if it needs more"
		for _, c := range []struct {
			then string
			end  func(wd *watchdog.Watchdog)
		}{
			{begin, func(wd *watchdog.Watchdog) {
				cancelRun(t, wd, watchdog.Cancellation{Reason: watchdog.CommandTerminal})
			}},
			{begin, func(wd *watchdog.Watchdog) {
				cancelRun(t, wd, watchdog.Cancellation{Reason: watchdog.LoopDetected})
			}},
			{more, func(wd *watchdog.Watchdog) {
				_, err := wd.Admit(t.Context(), "", watchdog.Amount{Turns: 2})
				require.ErrorIs(t, err, watchdog.TurnsExceeded)
			}},
		} {
			wd := guard(t, watchdog.Config{Budget: watchdog.Budget{Spend: watchdog.Spend{Turns: 1}}})
			c.end(wd)
			<-wd.Context().Done()
			require.True(t, strings.HasSuffix(wd.Stop().Error(), c.then), "%v", wd.Stop())
			require.NoError(t, wd.Close())
		}
	})
	runFixture(t, "an ID and a start that are given count", func(b *fixture) {
		b.cfg.Store = nil
		b.pass(time.Hour)
		wd := b.attach()
		require.Equal(b.t, b.run.ID, wd.ID())
		require.Equal(b.t, noon, wd.StartedAt())
		require.Equal(b.t, 3*time.Hour, wd.Remaining())
	})
	t.Run("an ID or a start that is given can be wrong", func(t *testing.T) {
		b := newFixture(t)
		b.cfg.Store = nil
		for _, run := range []watchdog.Run{
			{ID: " "}, {ID: "a\x00b"}, {StartedAt: noon.Add(time.Hour)}, {StartedAt: time.Unix(-1, 0)}, {Parent: "a\nb"},
		} {
			_, err := watchdog.New(t.Context(), run, b.cfg)
			require.ErrorIs(t, err, watchdog.ErrInvalid, "%v", run)
		}
	})
	runFixture(t, "a run of the same name shares nothing with one before", func(b *fixture) {
		b.cfg.Store = nil
		wd := b.attach()
		require.NoError(b.t, wd.Complete())
		b.live(b.attach())
		stopped := b.attach()
		cancelRun(b.t, stopped, watchdog.Cancellation{Reason: "host_gone"})
		b.live(b.attach())
		b.live(b.resume())
	})
}

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
	require.False(t, hasFired(wd))
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
	runBubble(t, "digests are remembered before anything heeds them", watchdog.Config{}, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		layer := openLayer(t, wd, "step", watchdog.Budget{})
		require.True(t, layer.ProgressDigest("d"))
		require.False(t, layer.ProgressDigest("d"))
		require.False(t, wd.ProgressDigest("d"))
		h, err := wd.Hold(t.Context(), "agent", watchdog.HoldLimit{Idle: minute})
		require.NoError(t, err)
		defer h.Close()
		require.False(t, wd.ProgressDigest("d"), "a hold that heeds signals")
		require.True(t, wd.ProgressDigest("e"))
		require.False(t, openLayer(t, wd, "next", watchdog.Budget{}).ProgressDigest("e"), "a layer heeds none, the run does")
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
		require.Contains(t, payloads(t, store, event.Cancel), `"note":"tool: grep"`)
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
	events, err := store.Read(context.Background(), event.AggregateType, "s-1")
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
			feed(wd, event.Warning, 2*minute)
			requireStop(t, wd, watchdog.IdleExceeded)
		})
	})
	t.Run("kinds that contradict each other are refused", func(t *testing.T) {
		for name, kinds := range map[string]watchdog.Kinds{
			"twice":                {Material: []string{"a"}, Ignored: []string{"a"}},
			"empty":                {Material: []string{" "}},
			"its own":              {Activity: []string{event.Wait}},
			"a class that is none": {Unknown: "loud"},
		} {
			_, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: &watchdog.Memory{}, Kinds: kinds,
			})
			require.ErrorIs(t, err, watchdog.ErrInvalid, name)
		}
	})
}
