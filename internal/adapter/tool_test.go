package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/internal/adapter"
	"github.com/seed62658d38/watchdog/internal/adapter/adaptertest"
	"github.com/seed62658d38/watchdog/loop"
)

var newRun = adaptertest.NewRun

func search(input string) adapter.ToolCall {
	return adapter.ToolCall{Tool: "search", Input: []byte(input)}
}

// use calls a tool that answers with a text.
func use(
	ctx context.Context, g *adapter.Guard, work func(context.Context) (string, error),
) (string, *adapter.Ended, error) {
	return adapter.Do(ctx, g, search(`{}`), work, func(text string) []byte { return []byte(text) })
}

// until ends with its context, and says why.
func until(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "too late", context.Cause(ctx)
}

var limits = adapter.Config{Tools: adapter.Limits{Limit: 10 * time.Minute, Idle: time.Minute, Grace: 5 * time.Second}}

// within checks a time that a limit took: it is exceeded a nanosecond after it.
func within(t *testing.T, want, took time.Duration) {
	t.Helper()
	assert.InDelta(t, want, took, 2)
}

func TestTool(t *testing.T) {
	boom := errors.New("boom")
	for _, c := range []struct {
		name   string
		work   func(ctx context.Context, wd *watchdog.Watchdog) (string, error)
		took   time.Duration
		result string
		err    error
		text   string // of what is told to the model
	}{
		{name: "an answer", work: func(context.Context, *watchdog.Watchdog) (string, error) { return "ok", nil }, result: "ok"},
		{
			name: "an error", err: boom, result: "half",
			work: func(context.Context, *watchdog.Watchdog) (string, error) { return "half", boom },
		},
		{
			name: "silence", took: time.Minute, text: "it gave no sign of life for its limit of 1m0s",
			work: func(ctx context.Context, _ *watchdog.Watchdog) (string, error) { return until(ctx) },
		},
		{
			name: "silence that ends without an error", took: time.Minute, text: "it gave no sign of life for its limit of 1m0s",
			work: func(ctx context.Context, _ *watchdog.Watchdog) (string, error) {
				<-ctx.Done()
				return "cut off", nil
			},
		},
		{
			name: "signs of life up to the limit", took: 10 * time.Minute, text: "it did not finish within its limit of 10m0s",
			work: func(ctx context.Context, _ *watchdog.Watchdog) (string, error) {
				for range 19 {
					time.Sleep(30 * time.Second)
					watchdog.FromContext(ctx).Activity()
				}
				return until(ctx)
			},
		},
		{
			name: "a context that is ignored", took: time.Minute + 5*time.Second, text: "may still be running",
			work: func(context.Context, *watchdog.Watchdog) (string, error) {
				time.Sleep(time.Hour)
				return "much too late", nil
			},
		},
	} {
		bubble(t, c.name, func(t *testing.T) {
			wd := newRun(t, watchdog.Budget{Idle: time.Second})
			began := time.Now()
			result, ended, err := use(wd.Context(), adapter.New(limits), func(ctx context.Context) (string, error) {
				return c.work(ctx, wd)
			})
			within(t, c.took, time.Since(began))
			assert.Equal(t, c.result, result)
			require.ErrorIs(t, err, c.err)
			if c.text == "" {
				assert.Nil(t, ended)
			} else {
				require.NotNil(t, ended)
				assert.Contains(t, ended.Text(), c.text)
				assert.Contains(t, ended.Text(), `tool "search"`)
				assert.Equal(t, strings.Contains(c.text, "running"), ended.Abandoned())
			}
			assert.Nil(t, wd.Stop(), "the run goes on")
			time.Sleep(time.Second + 1)
			assert.NotNil(t, wd.Stop(), "the hold is closed: the run's own idle counts again")
			time.Sleep(time.Hour) // what was abandoned returns
		})
	}
}

// TestToolLives checks that a silent tool lives for as long as its limit, whatever the run's idle.
func TestToolLives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Idle: time.Minute})
		_, ended, err := use(wd.Context(), adapter.New(adapter.Config{}), func(context.Context) (string, error) {
			time.Sleep(bound.DefaultTick)
			return "done", nil
		})
		require.NoError(t, err)
		assert.Nil(t, ended)
		assert.Nil(t, wd.Stop())
	})
}

// TestToolGrace checks that the run is not idle while a call whose caller has gone has its grace.
func TestToolGrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, gone := newRun(t, watchdog.Budget{Idle: time.Second}), errors.New("the client has gone")
		ctx, cancel := context.WithCancelCause(wd.Context())
		_, ended, err := use(ctx, adapter.New(limits), func(context.Context) (string, error) {
			cancel(gone)
			time.Sleep(4 * time.Second)
			return "", nil
		})
		require.ErrorIs(t, err, gone)
		assert.Nil(t, ended)
		assert.Nil(t, wd.Stop())
		time.Sleep(2 * time.Second)
		assert.NotNil(t, wd.Stop(), "and then its silence counts again")
	})
}

// TestToolSigns checks that what a tool reads is a sign of life of its call, and not of the run alone.
func TestToolSigns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Idle: time.Minute})
		_, ended, err := use(wd.Context(), adapter.New(limits), func(ctx context.Context) (string, error) {
			answer := idle.NewReader(ctx, strings.NewReader("a long answer"), nil)
			for range 5 {
				if _, err := answer.Read(make([]byte, 2)); err != nil {
					return "", err
				}
				time.Sleep(50 * time.Second)
			}
			return "read", nil
		})
		require.NoError(t, err)
		assert.Nil(t, ended)
	})
}

func TestToolLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := limits
		cfg.Tool = map[string]adapter.Limits{"search": {Limit: 2 * time.Second}, "free": {Limit: watchdog.NoLimit, Idle: watchdog.NoLimit}}
		g, wd := adapter.New(cfg), newRun(t, watchdog.Budget{WallClock: watchdog.NoLimit})
		began := time.Now()
		_, ended, err := use(wd.Context(), g, until)
		require.NoError(t, err)
		assert.Contains(t, ended.Text(), "limit of 2s")
		within(t, 2*time.Second, time.Since(began))
		_, ended, err = adapter.Do(wd.Context(), g, adapter.ToolCall{Tool: "free"}, func(context.Context) (int, error) {
			time.Sleep(48 * time.Hour)
			return 0, nil
		}, nil)
		require.NoError(t, err)
		assert.Nil(t, ended)
	})
}

func TestToolRefused(t *testing.T) {
	wd := newRun(t, watchdog.Budget{Spend: watchdog.Spend{Tools: map[string]int64{"search": 2}}})
	g, made := adapter.New(adapter.Config{}), 0
	work := func(context.Context) (string, error) { made++; return "ok", nil }
	for range 2 {
		_, ended, err := use(wd.Context(), g, work)
		require.NoError(t, err)
		require.Nil(t, ended)
	}
	_, ended, err := use(wd.Context(), g, work)
	require.NoError(t, err)
	require.NotNil(t, ended)
	assert.Contains(t, ended.Text(), `The call of the tool "search" was not made`)
	assert.Equal(t, 2, made)
	require.NotNil(t, ended.Refused())
	assert.False(t, ended.Abandoned())
}

// TestToolRunEnds checks that a call whose run or caller ends fails with why, and is no answer for the model.
func TestToolRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, wd := adapter.New(adapter.Config{}), newRun(t, watchdog.Budget{WallClock: time.Minute})
		_, ended, err := use(wd.Context(), g, until)
		assert.Nil(t, ended)
		require.ErrorIs(t, err, watchdog.WallClockExceeded)
		_, ended, err = use(wd.Context(), g, func(context.Context) (string, error) {
			t.Error("a call in a run that has ended was made")
			return "", nil
		})
		assert.Nil(t, ended)
		require.ErrorIs(t, err, watchdog.WallClockExceeded)

		wd = newRun(t, watchdog.Budget{WallClock: time.Hour, Reserve: 50 * time.Minute})
		_, ended, err = use(wd.Context(), g, until)
		require.NoError(t, err)
		assert.Contains(t, ended.Text(), "the time of the run is nearly used up", "and it has its reserve to say so")

		wd = newRun(t, watchdog.Budget{})
		gone := errors.New("the client has gone")
		ctx, cancel := context.WithCancelCause(wd.Context())
		time.AfterFunc(time.Second, func() { cancel(gone) })
		_, ended, err = use(ctx, g, until)
		assert.Nil(t, ended)
		require.ErrorIs(t, err, gone)
		assert.Nil(t, wd.Stop())
	})
}

func TestToolWithoutRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, ended, err := use(t.Context(), adapter.New(limits), until)
		require.NoError(t, err)
		assert.Contains(t, ended.Text(), "limit of 10m0s")
		within(t, 10*time.Minute, time.Since(began))
	})
}

func TestToolPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{Idle: time.Second, Spend: watchdog.Spend{ToolCalls: 5}})
		assert.Panics(t, func() {
			_, _, _ = use(wd.Context(), adapter.New(limits), func(context.Context) (string, error) { panic("boom") })
		})
		assert.EqualValues(t, 1, wd.Usage()[0].Used)
		assert.Zero(t, wd.Usage()[0].Admitted)
		time.Sleep(time.Second + 1)
		assert.NotNil(t, wd.Stop(), "the hold is closed")
	})
}

// TestToolNames checks that any name of a tool makes a layer, and that calls in parallel have one each.
func TestToolNames(t *testing.T) {
	wd := newRun(t, watchdog.Budget{})
	g := adapter.New(adapter.Config{})
	var ids sync.Map
	var all sync.WaitGroup
	names := []string{"", "a/b", "a\x00b\n", "\xff", strings.Repeat("工", 200), "search"}
	for _, name := range append(names, names...) {
		all.Go(func() {
			_, ended, err := adapter.Do(wd.Context(), g, adapter.ToolCall{Tool: name}, func(ctx context.Context) (int, error) {
				layer := watchdog.FromContext(ctx)
				_, twice := ids.LoadOrStore(layer.ID(), true)
				assert.False(t, twice, layer.ID())
				assert.Equal(t, wd.ID(), layer.Parent(), "%q", name)
				return 0, nil
			}, nil)
			assert.NoError(t, err)
			assert.Nil(t, ended)
		})
	}
	all.Wait()
}

// TestToolDeep checks that a call whose layer would have too long an ID is bounded all the same.
func TestToolDeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd, err := watchdog.New(t.Context(), watchdog.Run{ID: strings.Repeat("r", watchdog.MaxAggregateID), StartedAt: time.Now()},
			watchdog.Config{Store: &watchdog.Memory{}, Budget: watchdog.Budget{Idle: time.Hour}})
		require.NoError(t, err)
		defer wd.Close()
		_, ended, err := use(wd.Context(), adapter.New(limits), until)
		require.NoError(t, err)
		assert.Contains(t, ended.Text(), "limit of 10m0s")
	})
}

// TestSteps checks that the calls between two calls of the model are one turn, and that one who repeats is told.
func TestSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{})
		g := adapter.New(adapter.Config{})
		var told []string
		var rounds int
		for rounds = 1; wd.Stop() == nil && rounds < 20; rounds++ {
			var all sync.WaitGroup
			for i := range 3 { // in any order
				all.Go(func() {
					_, _, err := adapter.Do(wd.Context(), g, search(fmt.Sprintf(`{"n":%d}`, i)), func(context.Context) (string, error) {
						return "nothing", nil
					}, func(s string) []byte { return []byte(s) })
					assert.NoError(t, err)
				})
			}
			all.Wait()
			_, messages, err := g.Model(wd.Context(), adapter.ModelRequest{})
			synctest.Wait()
			if err != nil {
				require.ErrorIs(t, err, watchdog.LoopDetected)
				break
			}
			for _, m := range messages {
				told = append(told, fmt.Sprintf("%d: %s", rounds, m))
			}
		}
		require.Len(t, told, 1)
		assert.Contains(t, told[0], "3: You repeat yourself", "in the third round")
		assert.Equal(t, 5, rounds, "two rounds after it was told")
	})
}

// TestToolRemote checks that of a tool that runs elsewhere nobody says that it has stopped.
func TestToolRemote(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for remote, text := range map[bool]string{
			false: "Parts of it may have been done.", true: "It was told to stop, but may still be running.",
		} {
			call := adapter.ToolCall{Tool: "search", Remote: remote}
			_, ended, err := adapter.Do(t.Context(), adapter.New(limits), call, until, nil)
			require.NoError(t, err)
			assert.Contains(t, ended.Text(), text)
		}
	})
}

// TestTurnIfIdle checks that calls that overlap are one turn for an adapter that sees no calls of the model.
func TestTurnIfIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{})
		g := adapter.New(adapter.Config{})
		assert.Equal(t, loop.Go, g.TurnIfIdle(nil))
		sleep := func(n int) loop.Advice {
			_, _, err := adapter.Do(wd.Context(), g, search(fmt.Sprintf(`{"n":%d}`, n)), func(context.Context) (string, error) {
				time.Sleep(time.Duration(1+n%3) * time.Millisecond)
				return "nothing", nil
			}, func(s string) []byte { return []byte(s) })
			assert.NoError(t, err)
			return g.TurnIfIdle(wd)
		}
		for round := range 3 {
			var all sync.WaitGroup
			advice := make(chan loop.Advice, 3)
			for i := range 3 {
				all.Go(func() { advice <- sleep(i) })
			}
			all.Wait()
			close(advice)
			asked := 0
			for a := range advice {
				if a == loop.Ask {
					asked++
				}
			}
			assert.Equal(t, round == 2, asked == 1, "round %d", round)
		}
	})
}

// TestTurnIfIdleNever checks that a run with a call always under way has turns, too.
func TestTurnIfIdleNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{})
		g := adapter.New(adapter.Config{})
		ctx, cancel := context.WithCancel(wd.Context())
		ended := make(chan error)
		go func() {
			_, _, err := use(ctx, g, until)
			ended <- err
		}()
		synctest.Wait()
		calls := 0
		for advice := loop.Go; advice == loop.Go && calls < 1000; calls++ {
			_, _, err := use(wd.Context(), g, func(context.Context) (string, error) { return "nothing", nil })
			require.NoError(t, err)
			advice = g.TurnIfIdle(wd)
		}
		assert.Equal(t, 96, calls, "three turns of 32 calls")
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
	})
}

// TestNothingToWaitFor checks that a call of the model does not wait for words that never come, however much is found.
func TestNothingToWaitFor(t *testing.T) {
	wait, unstuck := watchdog.DirectiveWait, watchdog.DirectiveUnstuck
	for _, c := range []struct {
		name     string
		calls    int // different calls that the model repeats
		cfg      watchdog.Config
		messages int // at least
	}{
		{name: "a loop in a run that is only observed", calls: 1, cfg: watchdog.Config{ObserveOnly: true}, messages: 1},
		{name: "a loop of ten calls", calls: 10, messages: 2},
		{name: "a ladder that asks for nothing", calls: 1, messages: 1, cfg: watchdog.Config{
			Budget: watchdog.Budget{Ladders: watchdog.Ladders{Loop: []watchdog.DirectiveKind{wait, unstuck, wait}}},
		}},
		{name: "spend that is only observed", calls: 100, cfg: watchdog.Config{
			ObserveOnly: true, Budget: watchdog.Budget{Spend: watchdog.Spend{Requests: 3}},
		}},
	} {
		bubble(t, c.name, func(t *testing.T) {
			c.cfg.Logger = slog.New(slog.DiscardHandler)
			wd, err := watchdog.New(t.Context(), watchdog.Run{}, c.cfg)
			require.NoError(t, err)
			defer wd.Close()
			assert.GreaterOrEqual(t, repeat(t, wd, c.calls), c.messages)
		})
	}
}

// repeat makes calls again and again, and returns how many messages the model got.
func repeat(t *testing.T, wd *watchdog.Watchdog, calls int) (told int) {
	t.Helper()
	g, began := adapter.New(limits), time.Now()
	for turn := range 80 {
		_, _, err := adapter.Do(wd.Context(), g, search(fmt.Sprintf(`{"n":%d}`, turn%calls)),
			func(context.Context) (string, error) { return "nothing", nil }, func(s string) []byte { return []byte(s) })
		require.NoError(t, err)
		call, messages, err := g.Model(wd.Context(), adapter.ModelRequest{})
		assert.Zero(t, time.Since(began), "turn %d", turn)
		told += len(messages)
		if err != nil {
			require.ErrorIs(t, err, watchdog.LoopDetected)
			break
		}
		call.End(adapter.Usage{Input: 1})
	}
	return told
}

// TestRefusedTogether checks that of calls which are refused at once none waits for the words that another one took.
func TestRefusedTogether(t *testing.T) {
	for _, ladder := range [][]watchdog.DirectiveKind{
		nil, {watchdog.DirectiveUnstuck}, {watchdog.DirectiveWait, watchdog.DirectiveWait, watchdog.DirectiveWait},
	} {
		for _, reserve := range []int64{0, 2} {
			synctest.Test(t, func(t *testing.T) {
				wd := newRun(t, watchdog.Budget{
					Spend:   watchdog.Spend{Requests: 5, Reserve: watchdog.Totals{Requests: reserve}},
					Ladders: watchdog.Ladders{Requests: ladder},
				})
				g, began := adapter.New(limits), time.Now()
				var all sync.WaitGroup
				for range 12 {
					all.Go(func() {
						call, _, _ := g.Model(wd.Context(), adapter.ModelRequest{})
						call.End(adapter.Usage{})
					})
				}
				all.Wait()
				assert.Zero(t, time.Since(began))
				assert.LessOrEqual(t, wd.Usage()[0].Used, int64(5))
			})
		}
	}
}
