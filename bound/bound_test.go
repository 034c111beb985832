package bound_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/watchdogtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bubble runs a subtest with fake time.
func bubble(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

var errTick = errors.New("tick failed")

// quiet is the log of tests that overrun on purpose.
var quiet = slog.New(slog.DiscardHandler)

// tick is a call under small limits.
var tick = bound.Call{Limit: time.Minute, Grace: 10 * time.Second, Logger: quiet}

// ignoring is work that takes a time, whatever happens to its context, and returns the result and the error.
func ignoring(d time.Duration, err error) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		time.Sleep(d)
		return "done", err
	}
}

// obeying is work that returns with its context's error when that ends.
func obeying(ctx context.Context) (string, error) {
	<-ctx.Done()
	return "half done", ctx.Err()
}

// overrunOf returns the overrun that an error is.
func overrunOf(t *testing.T, err error) *bound.Overrun {
	t.Helper()
	var overrun *bound.Overrun
	require.ErrorAs(t, err, &overrun)
	return overrun
}

// TestOutcome checks what becomes of a call that takes so long, whatever happens to its context.
func TestOutcome(t *testing.T) {
	const none, soft, hard, outside = bound.LayerNone, bound.LayerSoft, bound.LayerHard, bound.LayerOutside
	const s, limit, grace = time.Second, time.Minute, 10 * time.Second
	for name, c := range map[string]struct {
		lasts   time.Duration
		err     error
		outside time.Duration // when the context outside ends, 0 for never
		layer   bound.LayerKind
		took    time.Duration // less for a call that was abandoned
	}{
		"in time":                          {lasts: s, layer: none, took: s},
		"with an error":                    {lasts: s, err: errTick, layer: none, took: s},
		"exactly the limit":                {lasts: limit, layer: none, took: limit},
		"within the grace":                 {lasts: limit + 5*s, layer: soft, took: limit + 5*s},
		"within the grace, with an error":  {lasts: limit + 1, err: errTick, layer: soft, took: limit + 1},
		"exactly the grace":                {lasts: limit + grace, layer: soft, took: limit + grace},
		"more than the grace":              {lasts: time.Hour, layer: hard, took: limit + grace + 2},
		"within the grace of an outer end": {lasts: 63 * s, err: errTick, outside: 55 * s, layer: outside, took: 63 * s},
		"more than that":                   {lasts: time.Hour, outside: s, layer: outside, took: s + grace + 1},
		"limit and then outer end":         {lasts: 65 * s, outside: limit + 2, layer: soft, took: 65 * s},
	} {
		bubble(t, name, func(t *testing.T) {
			ctx := t.Context()
			if c.outside > 0 {
				ctx = cutAfter(t, c.outside)
			}
			out := bound.Do(ctx, tick, ignoring(c.lasts, c.err))
			require.Equal(t, []time.Duration{limit, grace}, []time.Duration{out.Limit, out.Grace})
			require.Equal(t, c.layer, out.Layer)
			require.Equal(t, c.layer == soft || c.layer == hard, out.Overran())
			require.Equal(t, c.took, out.Elapsed)
			require.Equal(t, c.took < c.lasts, out.Abandoned)
			if !out.Abandoned {
				require.Equal(t, "done", out.Result)
				require.Equal(t, c.err, out.ResultErr)
				require.True(t, c.err == nil || errors.Is(out.Err, c.err))
			} else {
				require.Empty(t, out.Result)
				require.ErrorContains(t, out.Err, "was abandoned")
			}
			require.Equal(t, c.layer == outside, errors.Is(out.Err, errHostGone))
			switch c.layer {
			case none:
				require.Equal(t, c.err, out.Err, "as it is")
			case soft, hard:
				overrun := overrunOf(t, out.Err)
				require.Equal(t, c.took, overrun.Elapsed)
				require.Equal(t, c.layer, overrun.Layer)
				require.ErrorIs(t, out.Err, context.DeadlineExceeded)
			}
			time.Sleep(time.Hour)
		})
	}
	bubble(t, "a grace without a limit", func(t *testing.T) {
		call := tick
		call.Grace = watchdog.NoLimit
		out := bound.Do(t.Context(), call, ignoring(1000*time.Hour, nil))
		require.Equal(t, soft, out.Layer)
		require.Equal(t, 1000*time.Hour, out.Elapsed)
	})
}

func TestInTime(t *testing.T) {
	bubble(t, "its context has ended when it has, as one that a cancel ended", func(t *testing.T) {
		var kept context.Context
		bound.Do(t.Context(), tick, func(ctx context.Context) (string, error) { kept = ctx; return "", nil })
		require.Equal(t, context.Canceled, kept.Err())
		require.ErrorIs(t, context.Cause(kept), context.Canceled)
		require.ErrorContains(t, context.Cause(kept), "has returned")
	})
}

func TestContext(t *testing.T) {
	bubble(t, "has the values of the one outside and the sooner of two deadlines", func(t *testing.T) {
		type key struct{}
		outer := context.WithValue(t.Context(), key{}, "v")
		sooner, stop := context.WithTimeout(outer, time.Second)
		defer stop()
		later, stop := context.WithTimeout(outer, time.Hour)
		defer stop()
		for ctx, want := range map[context.Context]time.Duration{outer: time.Minute, sooner: time.Second, later: time.Minute} {
			bound.Do(ctx, tick, func(ctx context.Context) (string, error) {
				deadline, ok := ctx.Deadline()
				require.True(t, ok)
				require.Equal(t, want, time.Until(deadline))
				require.Equal(t, "v", ctx.Value(key{}))
				return "", nil
			})
		}
	})
	bubble(t, "has no deadline without a limit", func(t *testing.T) {
		out := bound.Do(t.Context(), bound.Call{Limit: watchdog.NoLimit}, func(ctx context.Context) (string, error) {
			_, ok := ctx.Deadline()
			require.False(t, ok)
			time.Sleep(1000 * time.Hour)
			return "done", ctx.Err()
		})
		require.NoError(t, out.Err)
		require.Equal(t, 1000*time.Hour, out.Elapsed)
	})
}

func TestSoftLimit(t *testing.T) {
	bubble(t, "ends the context a nanosecond after the limit, and says why in its cause", func(t *testing.T) {
		bound.Do(t.Context(), tick, func(ctx context.Context) (string, error) {
			time.Sleep(time.Minute)
			require.NoError(t, ctx.Err())
			<-ctx.Done()
			require.Equal(t, context.DeadlineExceeded, ctx.Err())
			require.Equal(t, &bound.Overrun{
				Layer: bound.LayerSoft, Limit: time.Minute, Grace: 10 * time.Second, Elapsed: time.Minute + 1,
			}, context.Cause(ctx))
			return "", nil
		})
	})
	bubble(t, "is exceeded also where its timer is late", func(t *testing.T) {
		late := &lateTimers{MockClock: watchdogtest.NewMockClock()}
		call := tick
		call.Clock = late
		var kept context.Context
		out := bound.Do(t.Context(), call, func(ctx context.Context) (string, error) {
			kept = ctx
			late.Add(time.Minute + 1)
			require.NoError(t, ctx.Err())
			return "done", nil
		})
		require.Equal(t, bound.LayerSoft, out.Layer)
		require.Equal(t, "done", out.Result)
		overrunOf(t, context.Cause(kept))
		require.Equal(t, context.DeadlineExceeded, kept.Err())
	})
}

// lateTimers is a clock whose timers do not come.
type lateTimers struct{ *watchdogtest.MockClock }

func (c *lateTimers) AfterFunc(_ time.Duration, f func()) watchdog.Timer {
	return c.Mock.AfterFunc(watchdog.NoLimit, f)
}

func TestHardLimit(t *testing.T) {
	bubble(t, "comes by a clock for tests, too", func(t *testing.T) {
		mock, done, call := watchdogtest.NewMockClock(), make(chan struct{}), tick
		call.Clock = mock
		outcome := make(chan bound.Outcome[string], 1)
		go func() {
			outcome <- bound.Do(t.Context(), call, func(ctx context.Context) (string, error) {
				_, ok := ctx.Deadline()
				assert.False(t, ok, "the mock's time is no one else's")
				<-done
				return "", nil
			})
		}()
		for range 2 { // the timer of the grace is only set once the limit was exceeded
			synctest.Wait()
			mock.Add(time.Minute + 1)
		}
		require.Equal(t, bound.LayerHard, (<-outcome).Layer)
		close(done)
	})
}

func TestLimits(t *testing.T) {
	bubble(t, "are 30 minutes and 30 seconds where the call does not say", func(t *testing.T) {
		out := bound.Do(t.Context(), bound.Call{Logger: quiet}, ignoring(time.Hour, nil))
		require.Equal(t, 30*time.Minute, out.Limit)
		require.Equal(t, 30*time.Second, out.Grace)
		require.Equal(t, 30*time.Minute+30*time.Second+2, out.Elapsed)
		time.Sleep(time.Hour)
	})
	bubble(t, "may be any positive duration", func(t *testing.T) {
		for _, limit := range []time.Duration{1, time.Second, 1000 * time.Hour, watchdog.NoLimit - 1} {
			out := bound.Do(t.Context(), bound.Call{Limit: limit}, ignoring(0, nil))
			require.NoError(t, out.Err)
			require.Equal(t, limit, out.Limit)
		}
	})
	t.Run("may not be negative, nor may a key be without Calls, and then nothing is begun", func(t *testing.T) {
		for name, call := range map[string]bound.Call{
			"Limit": {Limit: -1}, "Grace": {Grace: -1}, "Call.Calls": {Key: "tick"},
		} {
			out := bound.Do(t.Context(), call, func(context.Context) (string, error) { panic("begun") })
			require.ErrorIs(t, out.Err, watchdog.ErrInvalid)
			require.ErrorContains(t, out.Err, name)
			require.Equal(t, bound.LayerNone, out.Layer)
		}
	})
}

func TestOverrunText(t *testing.T) {
	textOf := func(t *testing.T, key string, work func(ctx context.Context) error) (text string) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			call := tick
			call.Key, call.Calls = key, &bound.Calls{}
			out := bound.Do(t.Context(), call, func(ctx context.Context) (string, error) {
				<-ctx.Done()
				return "", work(ctx)
			})
			require.Equal(t, out.ResultErr, overrunOf(t, out.Err).Err, "the error itself is kept")
			text = out.Err.Error()
		})
		return text
	}
	const once = `call "a" overran its limit of 1m0s: 1m0.000000001s elapsed`
	t.Run("is said once, also where the call returned its context's cause", func(t *testing.T) {
		require.Equal(t, once, textOf(t, "a", context.Cause))
		require.Equal(t, once, textOf(t, "a", func(ctx context.Context) error {
			return fmt.Errorf("read the file: %w", errors.Join(errTick, context.Cause(ctx)))
		}))
	})
	t.Run("has another error that the call returned", func(t *testing.T) {
		require.Equal(t, once+"; it returned: tick failed", textOf(t, "a", func(context.Context) error { return errTick }))
		require.Equal(t, once+"; it returned: call \"b\" overran its limit of 1m0s: 1m0s elapsed",
			textOf(t, "a", func(context.Context) error {
				return &bound.Overrun{Key: "b", Layer: bound.LayerSoft, Limit: time.Minute, Elapsed: time.Minute}
			}))
	})
	t.Run("ends also where an overrun is its own error", func(t *testing.T) {
		o := &bound.Overrun{Key: "a", Layer: bound.LayerSoft, Limit: time.Minute, Elapsed: time.Minute}
		o.Err = o
		require.Equal(t, `call "a" overran its limit of 1m0s: 1m0s elapsed`, o.Error())
		require.NotErrorIs(t, o, errTick)
	})
}

func TestTimer(t *testing.T) {
	t.Run("a call that is over is held by none", func(t *testing.T) {
		timers := &spiedTimers{MockClock: watchdogtest.NewMockClock()}
		call := tick
		call.Clock = timers
		bound.Do(t.Context(), call, ignoring(0, nil))
		require.Len(t, timers.made, 1)
		require.False(t, timers.made[0].Stop(), "it was stopped before")
	})
}

// spiedTimers is a clock that remembers its timers.
type spiedTimers struct {
	*watchdogtest.MockClock
	made []watchdog.Timer
}

func (c *spiedTimers) AfterFunc(d time.Duration, f func()) watchdog.Timer {
	t := c.Mock.AfterFunc(d, f)
	c.made = append(c.made, t)
	return t
}

// cutAfter is a context that ends after a time, with errHostGone as its cause.
var errHostGone = errors.New("host gone")

func cutAfter(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cut := context.WithCancelCause(context.Background())
	timer := time.AfterFunc(d, func() { cut(errHostGone) })
	t.Cleanup(func() { timer.Stop(); cut(nil) })
	return ctx
}

func TestOutside(t *testing.T) {
	bubble(t, "is cancelled and not timed out", func(t *testing.T) {
		out := bound.Do(cutAfter(t, time.Second), tick, obeying)
		require.Equal(t, "half done", out.Result)
		require.Equal(t, context.Canceled, out.ResultErr)
		require.ErrorIs(t, out.Err, context.Canceled)
		require.NotErrorIs(t, out.Err, context.DeadlineExceeded)
		require.EqualError(t, out.Err, "call was cancelled from outside and ended after 1s: host gone")
	})
	bubble(t, "ends by the deadline of that context, which is not its limit", func(t *testing.T) {
		ctx, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		out := bound.Do(ctx, tick, obeying)
		require.Equal(t, bound.LayerOutside, out.Layer)
		require.ErrorIs(t, out.Err, context.DeadlineExceeded)
	})
	t.Run("is not begun where that had ended before", func(t *testing.T) {
		ctx, cut := context.WithCancelCause(t.Context())
		cut(errHostGone)
		out := bound.Do(ctx, tick, func(context.Context) (string, error) { panic("begun") })
		require.Equal(t, bound.LayerOutside, out.Layer)
		require.ErrorIs(t, out.Err, errHostGone)
		require.Zero(t, out.Elapsed)
	})
	bubble(t, "inside another call has not overrun itself when that one did", func(t *testing.T) {
		outer := bound.Do(t.Context(), tick, func(ctx context.Context) (string, error) {
			inner := bound.Do(ctx, bound.Call{}, obeying)
			require.Equal(t, bound.LayerOutside, inner.Layer)
			require.Equal(t, time.Minute, overrunOf(t, inner.Err).Limit)
			return inner.Result, inner.Err
		})
		require.Equal(t, bound.LayerSoft, outer.Layer)
	})
}

func TestInRun(t *testing.T) {
	inRun := func(name string, budget watchdog.Budget, test func(t *testing.T, wd *watchdog.Watchdog)) {
		bubble(t, name, func(t *testing.T) {
			budget.WarnAt = []float64{}
			test(t, watched(t, watchdog.Config{Store: &watchdog.Memory{}, Budget: budget}))
		})
	}
	hour := watchdog.Budget{WallClock: time.Hour}
	reserved := watchdog.Budget{WallClock: time.Minute, Reserve: 10 * time.Second}
	inRun("has what is left less the reserve, and says of which run", reserved, func(t *testing.T, wd *watchdog.Watchdog) {
		time.Sleep(20 * time.Second)
		out := bound.Do(wd.Context(), tick, obeying)
		require.Equal(t, 30*time.Second, out.Limit)
		require.Equal(t, bound.LayerSoft, out.Layer)
		require.Equal(t, "s-1", overrunOf(t, out.Err).RunID)
		require.ErrorContains(t, out.Err, "all that run s-1 had left")
		_, fired := wd.Fired()
		require.False(t, fired)
	})
	inRun("has its own limit where that is less", hour, func(t *testing.T, wd *watchdog.Watchdog) {
		out := bound.Do(wd.Context(), tick, obeying)
		require.Equal(t, time.Minute, out.Limit)
		require.Empty(t, overrunOf(t, out.Err).RunID)
	})
	inRun("is not begun where there is nothing left", reserved, func(t *testing.T, wd *watchdog.Watchdog) {
		time.Sleep(50 * time.Second)
		out := bound.Do(wd.Context(), tick, ignoring(0, nil))
		require.Equal(t, 10*time.Second, out.Limit, "the host may wrap up")
		time.Sleep(10 * time.Second)
		out = bound.Do(wd.Context(), tick, func(context.Context) (string, error) { panic("begun") })
		require.Equal(t, bound.LayerSoft, out.Layer)
		require.Zero(t, out.Elapsed)
		require.ErrorContains(t, out.Err, "run s-1 has no time left")
	})
	idle := watchdog.Budget{Idle: 5 * time.Second}
	inRun("that another limit stops is cancelled from outside", idle, func(t *testing.T, wd *watchdog.Watchdog) {
		out := bound.Do(wd.Context(), tick, obeying)
		require.Equal(t, bound.LayerOutside, out.Layer)
		require.Same(t, wd.Stop(), stopOf(t, out.Err))
	})
	inRun("that has ended is bounded by its own limit, to clean up", reserved, func(t *testing.T, wd *watchdog.Watchdog) {
		<-wd.Context().Done()
		out := bound.Do(context.WithoutCancel(wd.Context()), tick, ignoring(time.Second, nil))
		require.NoError(t, out.Err)
		require.Equal(t, "done", out.Result)
	})
}

func stopOf(t *testing.T, err error) *watchdog.Stop {
	t.Helper()
	var stop *watchdog.Stop
	require.ErrorAs(t, err, &stop)
	return stop
}

func TestInObservedRun(t *testing.T) {
	bubble(t, "is not bounded by that run", func(t *testing.T) {
		wd := watched(t, watchdog.Config{Budget: watchdog.Budget{WallClock: time.Second}, ObserveOnly: true})
		out := bound.Do(wd.Context(), tick, ignoring(30*time.Second, nil))
		require.NoError(t, out.Err)
		require.Equal(t, time.Minute, out.Limit)
	})
	bubble(t, "nor is one on the clock of a run for tests ended by the machine's", func(t *testing.T) {
		machine := watchdogtest.NewMockClock()
		machine.Set(time.Now())
		wd := watched(t, watchdog.Config{Clock: machine})
		done := make(chan bound.Outcome[string], 1)
		go func() { done <- bound.Do(wd.Context(), tick, obeying) }()
		synctest.Wait()
		time.Sleep(time.Hour)
		require.Empty(t, done)
		machine.Add(time.Minute + 1)
		synctest.Wait()
		require.Equal(t, bound.LayerSoft, (<-done).Layer)
	})
}

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
			beside := layer(t, wd, "beside", watchdog.Budget{})
			during(time.Hour, approve(t, beside, 24*time.Hour))
			require.NoError(t, beside.Close())
		}},
		"of the layer's hold, which ends with the layer": {tenMinutes, 70 * minute, func(t *testing.T, wd *watchdog.Watchdog) {
			beside := layer(t, wd, "beside", watchdog.Budget{})
			approve(t, beside, 24*time.Hour)
			time.Sleep(time.Hour)
			require.NoError(t, beside.Close())
		}},
		"in what is left of the run": {bound.Call{Limit: 5 * time.Hour}, 90 * minute, func(t *testing.T, wd *watchdog.Watchdog) {
			during(time.Hour, approve(t, wd, 24*time.Hour))
		}},
	} {
		bubble(t, "a pause "+name, func(t *testing.T) {
			ladders := watchdog.Ladders{Hold: []watchdog.DirectiveKind{watchdog.DirectiveWait}}
			wd := watched(t, watchdog.Config{
				Budget: watchdog.Budget{WallClock: 31 * minute, Reserve: minute, Ladders: ladders},
			})
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
		wd := watched(t, watchdog.Config{})
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
		wd := watched(t, watchdog.Config{})
		h := approve(t, wd, 24*time.Hour)
		out := bound.Do(wd.Context(), tenMinutes, ignoring(time.Hour, nil))
		require.Equal(t, bound.LayerNone, out.Layer)
		require.NoError(t, out.Err)
		require.Zero(t, out.Elapsed)
		require.True(t, h.Close())
	})
	bubble(t, "calls that return in one, after their limit, and nothing of them is kept", func(t *testing.T) {
		wd := watched(t, watchdog.Config{})
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

// A hostClock is one with an Uptime. The wall clock can be set, and the machine can sleep, which its timers do not see.
type hostClock struct {
	*watchdogtest.MockClock
	began        time.Time
	ahead, slept atomic.Int64
}

func newHostClock() *hostClock {
	mock := watchdogtest.NewMockClock()
	return &hostClock{MockClock: mock, began: mock.Now()}
}

func (c *hostClock) Now() time.Time { return c.Mock.Now().Add(time.Duration(c.ahead.Load())) }
func (c *hostClock) Uptime() time.Duration {
	return c.Mock.Now().Sub(c.began) + time.Duration(c.slept.Load())
}

// TestUptime has a limit go by the count of the host's clock and not by its wall clock.
func TestUptime(t *testing.T) {
	for name, c := range map[string]struct {
		ahead, slept, runs time.Duration
		layer              bound.LayerKind
	}{
		"a wall clock that is set forward takes no time":  {time.Hour, 0, time.Minute, bound.LayerNone},
		"one that is set back gives none":                 {-time.Hour, 0, time.Minute + 1, bound.LayerSoft},
		"a machine that sleeps to the limit is in time":   {0, 30 * time.Second, 30 * time.Second, bound.LayerNone},
		"one that sleeps longer is not, on any wall time": {-time.Hour, time.Minute, 1, bound.LayerSoft},
	} {
		bubble(t, name, func(t *testing.T) {
			machine, call := newHostClock(), tick
			call.Clock = machine
			out := bound.Do(t.Context(), call, func(context.Context) (string, error) {
				machine.ahead.Store(int64(c.ahead))
				machine.slept.Store(int64(c.slept))
				machine.Add(c.runs)
				synctest.Wait()
				return "done", nil
			})
			require.Equal(t, c.layer, out.Layer)
			require.Equal(t, c.slept+c.runs, out.Elapsed)
		})
	}
	bubble(t, "a call that hangs ends within a minute of the machine's waking, and not before", func(t *testing.T) {
		machine, call := newHostClock(), tick
		call.Clock, call.Limit = machine, time.Hour
		bound.Do(t.Context(), call, func(ctx context.Context) (string, error) {
			for range 10 {
				machine.Add(time.Minute)
				synctest.Wait()
				require.NoError(t, ctx.Err())
			}
			machine.slept.Store(int64(50 * time.Minute))
			synctest.Wait()
			require.NoError(t, ctx.Err(), "at its limit")
			machine.Add(time.Minute)
			synctest.Wait()
			require.ErrorIs(t, ctx.Err(), context.DeadlineExceeded)
			return "", nil
		})
	})
}
