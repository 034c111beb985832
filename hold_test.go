package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

func TestHold(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{Idle: 10 * minute, NoProgress: 20 * minute}}
	runBubble(t, "a person's approval that takes three hours does not trip idle; the wall clock still ends the run", cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		_, err := wd.Hold(context.Background(), "approval", watchdog.HoldLimit{Cap: watchdog.NoLimit})
		require.NoError(t, err)
		after(3 * time.Hour)
		requireRunning(t, wd)
		after(time.Hour + 1)
		requireStop(t, wd, watchdog.WallClockExceeded)
	})
	runBubble(t, "its cap trips by itself and names it", cfg, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
		_, err := wd.Hold(context.Background(), "tool: grep", watchdog.HoldLimit{Cap: 2 * time.Hour})
		require.NoError(t, err)
		after(2 * time.Hour)
		requireRunning(t, wd)
		after(1)
		stop := requireStop(t, wd, watchdog.HoldExceeded)
		require.Equal(t, "tool: grep", stop.Hold)
		require.ErrorContains(t, stop, "tool: grep")
		require.Contains(t, payloads(t, store, watchdog.EventCancel), `"hold":"tool: grep"`)
	})
	runBubble(t, "it closes exactly once, also by its context", cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		ctx, cancel := context.WithCancel(context.Background())
		h, err := wd.Hold(ctx, "tool", watchdog.HoldLimit{})
		require.NoError(t, err)
		cancel()
		synctest.Wait()
		require.False(t, h.Close())
		again, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{})
		require.NoError(t, err, "its key is free")
		require.False(t, h.Close(), "and the old one does not close the new")
		after(time.Hour)
		requireRunning(t, wd)
		require.True(t, again.Close())
		require.False(t, again.Close())
	})
	runBubble(t, "keys and caps that make no sense are refused", cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		for _, key := range []string{"", "a\nb", strings.Repeat("x", 256)} {
			_, err := wd.Hold(context.Background(), key, watchdog.HoldLimit{})
			require.ErrorIs(t, err, watchdog.ErrInvalid)
		}
		_, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{Cap: -1})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
	})
}

func TestDuring(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{Idle: 10 * minute}}
	t.Run("a hold does not outlive its scope, left by a return or a panic", func(t *testing.T) {
		errTool := errors.New("tool failed")
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			work := func(context.Context) error { after(time.Hour); return errTool }
			require.ErrorIs(t, wd.During(wd.Context(), "tool", watchdog.HoldLimit{}, work), errTool)
			require.Panics(t, func() {
				wd.During(wd.Context(), "tool", watchdog.HoldLimit{}, func(context.Context) error { panic("tool") })
			})
			requireRunning(t, wd)
			after(10*minute + 1)
			requireStop(t, wd, watchdog.IdleExceeded)
		})
	})
	runBubble(t, "work whose hold is refused is not begun", cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		require.NoError(t, wd.Close())
		err := wd.During(context.Background(), "tool", watchdog.HoldLimit{}, func(context.Context) error { panic("begun") })
		require.ErrorIs(t, err, watchdog.ErrEnded)
	})
	t.Run("without a watchdog the work is done all the same", func(t *testing.T) {
		done := false
		none := watchdog.FromContext(context.Background())
		require.NoError(t,
			none.During(context.Background(), "tool", watchdog.HoldLimit{}, func(context.Context) error { done = true; return nil }))
		require.True(t, done)
	})
}

var noCap = watchdog.HoldLimit{Cap: watchdog.NoLimit}

// openHold opens a hold that only its close or its run's end closes.
func openHold(t *testing.T, wd *watchdog.Watchdog, key string) *watchdog.Hold {
	t.Helper()
	h, err := wd.Hold(context.Background(), key, noCap)
	require.NoError(t, err)
	return h
}

// openLayer makes a layer, which ends with its run.
func openLayer(t *testing.T, wd *watchdog.Watchdog, name string, budget watchdog.Budget) *watchdog.Watchdog {
	t.Helper()
	layer, err := wd.Layer(name, budget)
	require.NoError(t, err)
	return layer
}

// requireIdleFrom checks that the run's idle limit of 20 minutes began at this moment.
func requireIdleFrom(t *testing.T, wd *watchdog.Watchdog) {
	t.Helper()
	after(20 * minute)
	requireRunning(t, wd)
	after(1)
	_, _ = wd.Fired()
	requireStop(t, wd, watchdog.IdleExceeded)
}

func TestHoldOfLayer(t *testing.T) {
	session := watchdog.Config{Budget: watchdog.Budget{WallClock: watchdog.NoLimit, Idle: 20 * minute}}
	runBubble(t, "it holds every run around, until it is closed", session, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		step := openLayer(t, wd, "build", watchdog.Budget{Idle: 20 * minute})
		hold := openHold(t, openLayer(t, step, "grep", watchdog.Budget{}), "tool")
		after(time.Hour)
		requireRunning(t, wd)
		requireRunning(t, step)
		require.True(t, hold.Close())
		after(20*minute + 1)
		requireStop(t, wd, watchdog.IdleExceeded)
	})
	t.Run("its close releases the run around also if a subscriber ends the goroutine", func(t *testing.T) {
		cfg := session
		cfg.PollOnly = true
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			step := openLayer(t, wd, "build", watchdog.Budget{Ladders: watchdog.Ladders{Hold: many(watchdog.DirectiveWait, 1)}})
			step.Subscribe(func(watchdog.Directive) { runtime.Goexit() })
			hold, err := step.Hold(context.Background(), "tool", watchdog.HoldLimit{Cap: minute})
			require.NoError(t, err)
			after(minute + 1)
			go hold.Close()
			synctest.Wait()
			requireIdleFrom(t, wd)
		})
	})
}

func TestHoldEndsWithLayer(t *testing.T) {
	session := watchdog.Config{Budget: watchdog.Budget{WallClock: watchdog.NoLimit, Idle: 20 * minute}}
	ends := map[string]func(t *testing.T, step *watchdog.Watchdog){
		"is closed":      func(t *testing.T, step *watchdog.Watchdog) { require.NoError(t, step.Close()) },
		"is interrupted": func(t *testing.T, step *watchdog.Watchdog) { require.NoError(t, step.Interrupt("SIGINT")) },
		"is stopped": func(t *testing.T, step *watchdog.Watchdog) {
			after(time.Hour + 1)
			_, fired := step.Fired()
			require.True(t, fired)
		},
		"is cancelled by another guard": func(t *testing.T, step *watchdog.Watchdog) {
			_, err := step.Cancel(watchdog.Cancellation{Reason: watchdog.CommandNoOutput})
			require.NoError(t, err)
		},
	}
	for name, end := range ends {
		for _, pollOnly := range []bool{false, true} {
			mode := map[bool]string{false: " with a timer", true: " without one"}[pollOnly]
			session.PollOnly = pollOnly
			runBubble(t, "when it "+name+mode, session, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
				step := openLayer(t, wd, "build", watchdog.Budget{WallClock: time.Hour})
				hold := openHold(t, step, "tool")
				end(t, step)
				require.False(t, hold.Close())
				requireIdleFrom(t, wd)
			})
			runBubble(t, "when the layer around it "+name+mode, session, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
				step := openLayer(t, wd, "build", watchdog.Budget{WallClock: time.Hour})
				hold := openHold(t, openLayer(t, step, "grep", watchdog.Budget{}), "tool")
				end(t, step)
				synctest.Wait()
				require.False(t, hold.Close())
				requireIdleFrom(t, wd)
			})
		}
	}
	t.Run("also if it is opened at that moment", func(t *testing.T) {
		session.PollOnly = false
		for range 200 {
			inBubble(t, session, func(wd *watchdog.Watchdog, _ *flakyStore) {
				step := openLayer(t, wd, "build", watchdog.Budget{})
				go step.Close()
				_, _ = step.Hold(wd.Context(), "tool", noCap)
				after(minute)
				require.Equal(t, minute, wd.SinceActivity(), "the run is held")
			})
		}
	})
}

// openIdle opens a hold that limits the silence.
func openIdle(t *testing.T, wd *watchdog.Watchdog, key string, idle time.Duration) *watchdog.Hold {
	t.Helper()
	h, err := wd.Hold(context.Background(), key, watchdog.HoldLimit{Cap: watchdog.NoLimit, Idle: idle})
	require.NoError(t, err)
	return h
}

// requireIdleOf checks that the run was stopped for a silence that was longer than the hold allows.
func requireIdleOf(t *testing.T, wd *watchdog.Watchdog, key string, idle time.Duration) {
	t.Helper()
	stop := requireStop(t, wd, watchdog.IdleExceeded)
	require.Equal(t, key, stop.Hold)
	require.Equal(t, idle, stop.Budget)
	require.ErrorContains(t, stop, fmt.Sprintf("in hold %q", key))
}

func TestHoldIdle(t *testing.T) {
	endless := watchdog.Config{Budget: watchdog.Budget{WallClock: watchdog.NoLimit}}
	limits := map[string]watchdog.Config{
		"where the run has no limit of silence": endless,
		"where the run has a shorter one":       {Budget: watchdog.Budget{WallClock: watchdog.NoLimit, Idle: time.Second}},
		"where the run has a longer one": {Budget: watchdog.Budget{
			WallClock: watchdog.NoLimit, Idle: time.Hour, NoProgress: time.Hour, FromFirstSign: true, FirstSign: 2 * time.Hour,
		}},
		"where the run is traced": {
			Budget: watchdog.Budget{WallClock: watchdog.NoLimit}, OnSignal: func(watchdog.Signal) {},
		},
	}
	for where, cfg := range limits {
		runBubble(t, "a sub-agent that streams lives until the cap "+where, cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
			_, err := wd.Hold(context.Background(), "agent", watchdog.HoldLimit{Cap: 2 * time.Hour, Idle: minute})
			require.NoError(t, err)
			every := 50 * time.Second
			if cfg.OnSignal == nil && cfg.Budget.Idle == 0 {
				every = 20 * time.Millisecond
			}
			for range 2 * time.Hour / every {
				time.Sleep(every)
				wd.Activity()
			}
			synctest.Wait()
			requireRunning(t, wd)
			after(1)
			require.Equal(t, "agent", requireStop(t, wd, watchdog.HoldExceeded).Hold)
		})
		runBubble(t, "one that is silent for more than its limit ends "+where, cfg, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
			openIdle(t, wd, "agent", minute)
			after(30 * time.Second)
			wd.Activity()
			after(minute)
			requireRunning(t, wd)
			after(1)
			requireIdleOf(t, wd, "agent", minute)
			require.Contains(t, payloads(t, store, watchdog.EventCancel), `"reason":"idle_exceeded"`)
			require.Contains(t, payloads(t, store, watchdog.EventCancel), `"hold":"agent"`)
		})
	}
	t.Run("its trips are on the ladder of idle, which needs no limit of the run's", func(t *testing.T) {
		cfg := endless
		cfg.Budget.Ladders.Idle = []watchdog.DirectiveKind{watchdog.DirectiveRetry}
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			openIdle(t, wd, "tool", minute)
			after(minute + 1)
			d, _ := wd.Poll()
			require.Equal(t, watchdog.DirectiveRetry, d.Kind)
			require.Equal(t, "tool", d.Hold)
			wd.Progress()
			after(minute + 1)
			d, _ = wd.Poll()
			require.Equal(t, watchdog.DirectiveRetry, d.Kind, "progress puts it back")
			after(minute + 1)
			requireIdleOf(t, wd, "tool", minute)
		})
	})
	runBubble(t, "a negative one is refused and named", endless, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		_, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{Idle: -1})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, "Idle is -1ns")
	})
	runBubble(t, "in a run that nothing guards it limits nothing", watchdog.Config{Disabled: true}, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		openIdle(t, wd, "tool", minute)
		after(time.Hour)
		requireRunning(t, wd)
	})
}

// TestHoldIdleRace opens holds that limit the silence while others signal: signals count from the first of them on.
func TestHoldIdleRace(t *testing.T) {
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
		Store: &watchdog.Memory{}, Logger: quiet,
	})
	require.NoError(t, err)
	defer wd.Close()
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 100 {
				wd.Activity()
				wd.ProgressDigest("same")
				h, err := wd.Hold(context.Background(), fmt.Sprint(i), watchdog.HoldLimit{Idle: time.Hour})
				if err == nil {
					h.Close()
				}
				wd.SinceActivity()
			}
		})
	}
	all.Wait()
	require.NoError(t, wd.Context().Err())
	require.Less(t, wd.SinceActivity(), time.Hour)
}

// A hookedReader is a store that calls a hook at the next read of a run.
type hookedReader struct {
	watchdog.EventStore
	hook atomic.Pointer[func()]
}

func (s *hookedReader) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	if hook := s.hook.Swap(nil); hook != nil {
		(*hook)()
	}
	return s.EventStore.Read(ctx, aggregateType, aggregateID)
}

// TestHoldClosedWhileRecording closes a hold while the run, whose wall clock is used up, asks the store: another process
// has given it more time.
func TestHoldClosedWhileRecording(t *testing.T) {
	for mode, pollOnly := range map[string]bool{"with a timer": false, "without one": true} {
		runFixture(t, mode, func(b *fixture) {
			operator := b.attach()
			store := &hookedReader{EventStore: b.store}
			b.cfg.Store, b.cfg.PollOnly, b.cfg.Budget.Idle = store, pollOnly, 10*minute
			wd := b.attach()
			hold := openHold(b.t, wd, "tool")
			require.NoError(b.t, operator.Extend(time.Hour))
			closed := false
			b.pass(4 * time.Hour)
			closeIt := func() { closed = hold.Close() }
			store.hook.Store(&closeIt)
			b.pass(1)
			_, _ = wd.Fired()
			require.True(b.t, closed, "it did not wait, and closed the hold")
			require.False(b.t, hold.Close())
			b.live(wd)
			b.pass(10 * minute)
			b.live(wd)
			b.pass(1)
			_, fired := wd.Fired()
			require.True(b.t, fired)
			requireStop(b.t, wd, watchdog.IdleExceeded)
		})
	}
}

// A hostContext is a context of the host's own, which counts who waits for its end. It calls the host at the end of a
// registration.
type hostContext struct {
	context.Context
	waiting atomic.Int32
	atStop  func()
}

func (c *hostContext) Done() <-chan struct{} { return make(chan struct{}) }

func (c *hostContext) AfterFunc(func()) (stop func() bool) {
	c.waiting.Add(1)
	return func() bool {
		c.waiting.Add(-1)
		c.atStop()
		return true
	}
}

func TestHoldLetsGoOfContext(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{WallClock: time.Hour}}
	for name, end := range map[string]func(wd *watchdog.Watchdog){
		"at the run's close":     func(wd *watchdog.Watchdog) { require.NoError(t, wd.Close()) },
		"at the run's stop":      func(wd *watchdog.Watchdog) { after(wd.Remaining() + 1) },
		"at the run's interrupt": func(wd *watchdog.Watchdog) { require.NoError(t, wd.Interrupt("SIGINT")) },
	} {
		runBubble(t, name+", with no lock held", cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
			for _, run := range []*watchdog.Watchdog{openLayer(t, wd, "build", watchdog.Budget{WallClock: minute}), wd} {
				ctx := &hostContext{Context: context.Background(), atStop: func() {
					run.Elapsed() // takes the run's lock, as does the next
					wd.SinceActivity()
				}}
				for _, key := range []string{"one", "other"} {
					_, err := run.Hold(ctx, key, noCap)
					require.NoError(t, err)
				}
				require.EqualValues(t, 2, ctx.waiting.Load())
				end(run)
				synctest.Wait()
				require.Zero(t, ctx.waiting.Load())
			}
		})
	}
	runBubble(t, "at its own close", cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
		ctx := &hostContext{Context: context.Background(), atStop: func() { wd.Elapsed() }}
		h, err := wd.Hold(ctx, "tool", noCap)
		require.NoError(t, err)
		require.True(t, h.Close())
		require.Zero(t, ctx.waiting.Load())
	})
	t.Run("so that nothing of a run that has ended is kept while the context lasts", func(t *testing.T) {
		ctx := t.Context()
		run := func() weak.Pointer[watchdog.Watchdog] {
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()},
				watchdog.Config{Store: &watchdog.Memory{}, Logger: quiet})
			require.NoError(t, err)
			_, err = wd.Hold(ctx, "tool", noCap)
			require.NoError(t, err)
			require.NoError(t, wd.Close())
			return weak.Make(wd)
		}()
		for range 10 {
			runtime.GC()
		}
		require.Nil(t, run.Value())
	})
}
