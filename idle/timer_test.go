package idle_test

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
)

const limit time.Duration = time.Minute

// pass lets time pass, and what is due then happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// requireSilent checks that the context has ended for its silence, after a time.
func requireSilent(ctx context.Context, t *testing.T, timer *idle.Timer, elapsed, budget time.Duration) {
	t.Helper()
	require.ErrorIs(t, ctx.Err(), context.Canceled)
	stop, stopped := timer.Stopped()
	require.True(t, stopped)
	require.Same(t, stop, context.Cause(ctx))
	require.Equal(t, watchdog.IdleExceeded, stop.Code)
	require.Equal(t, elapsed, stop.Elapsed)
	require.Equal(t, budget, stop.Budget)
	require.Empty(t, stop.RunID)
}

func requireAlive(ctx context.Context, t *testing.T, timer *idle.Timer) {
	t.Helper()
	require.NoError(t, ctx.Err())
	_, stopped := timer.Stopped()
	require.False(t, stopped)
}

func TestLimit(t *testing.T) {
	bubble(t, "the context ends one nanosecond after the limit", func(t *testing.T) {
		ctx, timer := idle.WithLimit(t.Context(), limit)
		defer timer.Close()
		pass(limit)
		requireAlive(ctx, t, timer)
		pass(1)
		requireSilent(ctx, t, timer, limit+1, limit)
	})
	bubble(t, "a sign of life begins the silence anew, to the nanosecond", func(t *testing.T) {
		ctx, timer := idle.WithLimit(t.Context(), limit)
		defer timer.Close()
		for range 100 {
			pass(limit)
			timer.Alive()
		}
		pass(limit)
		requireAlive(ctx, t, timer)
		pass(1)
		requireSilent(ctx, t, timer, limit+1, limit)
	})
	bubble(t, "signs within a millisecond count as one at its end", func(t *testing.T) {
		ctx, timer := idle.WithLimit(t.Context(), limit)
		defer timer.Close()
		pass(time.Second)
		for range 10 {
			timer.Alive()
			pass(10 * time.Microsecond)
		}
		pass(limit)
		requireAlive(ctx, t, timer)
		pass(time.Millisecond)
		require.Error(t, ctx.Err())
	})
	t.Run("a limit of 0 or less, and none, are off", func(t *testing.T) {
		for _, off := range []time.Duration{0, -1, watchdog.NoLimit} {
			synctest.Test(t, func(t *testing.T) {
				ctx, timer := idle.WithLimit(t.Context(), off)
				narrow := timer.Widen(time.Second)
				pass(1000 * time.Hour)
				narrow()
				timer.Alive()
				pass(1000 * time.Hour)
				requireAlive(ctx, t, timer)
				timer.Close()
				require.Equal(t, context.Canceled, context.Cause(ctx))
			})
		}
	})
	bubble(t, "the longest limit that there can be does not overflow", func(t *testing.T) {
		ctx, timer := idle.WithLimit(t.Context(), watchdog.NoLimit-1)
		defer timer.Close()
		pass(1000 * time.Hour)
		requireAlive(ctx, t, timer)
	})
	bubble(t, "a stop is a timeout, and says what to do", func(t *testing.T) {
		ctx, timer := idle.WithLimit(t.Context(), limit)
		defer timer.Close()
		pass(2 * limit)
		cause := context.Cause(ctx)
		require.EqualError(t, cause, "stopped: watchdog_idle_exceeded: no sign of life for 1 min 0 s of 1 min; "+
			"begin again, or raise the limit if it needs longer")
		require.ErrorIs(t, cause, watchdog.IdleExceeded)
		require.True(t, os.IsTimeout(cause))
		stop, _ := timer.Stopped()
		require.Empty(t, stop.EventID())
		require.WithinDuration(t, time.Now().Add(-limit), stop.FiredAt, time.Microsecond)
		require.Equal(t, limit, stop.FiredAt.Sub(stop.StartedAt))
		require.Equal(t, time.UTC, stop.FiredAt.Location())
	})
}

// TestEnds checks what ends a context besides its silence.
func TestEnds(t *testing.T) {
	bubble(t, "the parent's end is not a stop", func(t *testing.T) {
		parent, cancel := context.WithCancelCause(t.Context())
		ctx, timer := idle.WithLimit(parent, limit)
		defer timer.Close()
		gone := errors.New("gone")
		cancel(gone)
		pass(2 * limit)
		require.Equal(t, gone, context.Cause(ctx))
		_, stopped := timer.Stopped()
		require.False(t, stopped)
	})
	bubble(t, "nor is that of a parent which was silent", func(t *testing.T) {
		outer, around := idle.WithLimit(t.Context(), limit)
		defer around.Close()
		ctx, timer := idle.WithLimit(outer, 2*limit)
		defer timer.Close()
		pass(3 * limit)
		requireSilent(outer, t, around, limit+1, limit)
		require.Equal(t, context.Cause(outer), context.Cause(ctx))
		_, stopped := timer.Stopped()
		require.False(t, stopped)
	})
	bubble(t, "Close ends it, also before the first look and again", func(t *testing.T) {
		ctx, timer := idle.WithLimit(t.Context(), limit)
		timer.Close()
		timer.Close()
		require.Equal(t, context.Canceled, context.Cause(ctx))
		pass(2 * limit)
		timer.Alive()
		timer.Widen(limit)()
		pass(2 * limit)
		_, stopped := timer.Stopped()
		require.False(t, stopped)
	})
	bubble(t, "Close takes no stop back", func(t *testing.T) {
		ctx, timer := idle.WithLimit(t.Context(), limit)
		pass(2 * limit)
		timer.Close()
		requireSilent(ctx, t, timer, limit+1, limit)
	})
}

func TestNil(t *testing.T) {
	timer := idle.FromContext(t.Context())
	require.Nil(t, timer)
	timer.Alive()
	timer.Widen(limit)()
	timer.Begin("call", limit)
	timer.End("call")
	timer.Close()
	stop, stopped := timer.Stopped()
	require.Nil(t, stop)
	require.False(t, stopped)
}

func TestContext(t *testing.T) {
	t.Run("it carries its timer and what the parent carries", func(t *testing.T) {
		type key struct{}
		parent, cancel := context.WithTimeout(context.WithValue(t.Context(), key{}, "value"), time.Hour)
		defer cancel()
		ctx, timer := idle.WithLimit(parent, limit)
		defer timer.Close()
		inner, cancelInner := context.WithCancel(ctx)
		defer cancelInner()
		require.Same(t, timer, idle.FromContext(inner))
		require.Equal(t, "value", inner.Value(key{}))
		deadline, ok := ctx.Deadline()
		require.True(t, ok)
		expected, _ := parent.Deadline()
		require.Equal(t, expected, deadline)
	})
	bubble(t, "contexts made from it cost no goroutine", func(t *testing.T) {
		ctx, timer := idle.WithLimit(t.Context(), limit)
		child, cancel := context.WithCancel(ctx) // a goroutine would hold the bubble up
		_ = cancel
		timer.Close()
		require.Error(t, child.Err())
	})
}

// TestInside checks that a sign of life is one of everything around it.
func TestInside(t *testing.T) {
	bubble(t, "a run", func(t *testing.T) {
		wd := newRun(t, watchdog.Config{Budget: watchdog.Budget{Idle: 2 * limit}})
		wd.Note("reading")
		ctx, timer := idle.WithLimit(wd.Context(), limit)
		defer timer.Close()
		for range 100 {
			pass(limit)
			timer.Alive()
		}
		require.NoError(t, ctx.Err())
		pass(limit + 1)
		requireSilent(ctx, t, timer, limit+1, limit)
		stop, _ := timer.Stopped()
		require.Equal(t, "reading", stop.Note)
		require.NoError(t, wd.Context().Err())
		pass(limit - 1)
		require.NoError(t, wd.Context().Err())
		pass(1)
		require.ErrorIs(t, context.Cause(wd.Context()), watchdog.IdleExceeded)
	})
	bubble(t, "a layer and the run around it, and a run that is traced", func(t *testing.T) {
		var traced atomic.Int64
		wd := newRun(t, watchdog.Config{
			Budget: watchdog.Budget{Idle: limit}, OnSignal: func(watchdog.Signal) { traced.Add(1) },
		})
		layer, err := wd.Layer("step", watchdog.Budget{Idle: limit})
		require.NoError(t, err)
		defer layer.Close()
		_, timer := idle.WithLimit(layer.Context(), limit)
		defer timer.Close()
		before := traced.Load()
		for range 10 {
			pass(limit)
			timer.Alive()
		}
		require.NoError(t, layer.Context().Err())
		require.Equal(t, before+20, traced.Load())
	})
	bubble(t, "a run without a limit of silence", func(t *testing.T) {
		wd := newRun(t, watchdog.Config{})
		_, timer := idle.WithLimit(wd.Context(), limit)
		defer timer.Close()
		timer.Alive()
	})
	bubble(t, "timers around", func(t *testing.T) {
		outer, around := idle.WithLimit(t.Context(), limit)
		defer around.Close()
		pass(limit / 2)
		ctx, timer := idle.WithLimit(outer, watchdog.NoLimit)
		defer timer.Close()
		for range 10 {
			pass(limit / 2)
			timer.Alive()
		}
		requireAlive(outer, t, around)
		around.Alive()
		pass(limit + 1)
		requireSilent(outer, t, around, limit+1, limit)
		require.Error(t, ctx.Err())
	})
}

// newRun guards a run until the end of the test.
func newRun(t *testing.T, cfg watchdog.Config) *watchdog.Watchdog {
	t.Helper()
	cfg.Store = &watchdog.Memory{}
	cfg.Budget.WallClock = watchdog.NoLimit
	wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "session-1", StartedAt: time.Now()}, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, wd.Close()) })
	return wd
}

// TestCancel checks what ends a context that existed before its timer.
func TestCancel(t *testing.T) {
	bubble(t, "silence ends it, with the stop as its cause, and once", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 0
		guarded, timer := newTimer(t, idle.Config{Limit: limit, Cancel: func(cause error) { calls++; cancel(cause) }})
		pass(limit)
		require.NoError(t, ctx.Err())
		pass(1)
		requireSilent(ctx, t, timer, limit+1, limit)
		requireSilent(guarded, t, timer, limit+1, limit)
		timer.Alive()
		pass(limit + 1)
		require.Equal(t, 1, calls)
	})
	bubble(t, "nothing else does: not Close, and not the parent's end", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		calls := 0
		count := func(error) { calls++ }
		_, timer, err := idle.New(ctx, idle.Config{Limit: limit, Cancel: count})
		require.NoError(t, err)
		timer.Close()
		_, timer, err = idle.New(ctx, idle.Config{Limit: limit, Cancel: count})
		require.NoError(t, err)
		defer timer.Close()
		cancel(errors.New("gone"))
		pass(2 * limit)
		require.Zero(t, calls)
		_, stopped := timer.Stopped()
		require.False(t, stopped)
	})
	bubble(t, "Busy is asked before", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		_, timer := newTimer(t, idle.Config{Limit: limit, Cancel: cancel, Busy: func() bool { return true }})
		pass(10 * limit)
		requireAlive(ctx, t, timer)
	})
	t.Run("one that waits for the work, panics or ends its goroutine holds nothing up", func(t *testing.T) {
		for name, cancel := range map[string]func(work context.Context){
			"":         func(work context.Context) { <-work.Done() },
			"panicked": func(context.Context) { panic("secret") },
			"ended":    func(context.Context) { runtime.Goexit() },
		} {
			synctest.Test(t, func(t *testing.T) {
				log := captureLog(t)
				made := make(chan context.Context, 1)
				work, timer := newTimer(t, idle.Config{Limit: limit, Cancel: func(error) { cancel(<-made) }})
				made <- work
				pass(limit + 1)
				requireSilent(work, t, timer, limit+1, limit)
				require.Contains(t, log.String(), name)
				require.NotContains(t, log.String(), "secret")
			})
		}
	})
	t.Run("beside Notify it is an error that says what to do", func(t *testing.T) {
		ctx, timer, err := idle.New(t.Context(), idle.Config{
			Limit: limit, Cancel: func(error) {}, Notify: func(*watchdog.Stop) {},
		})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, "leave one of them out")
		require.Nil(t, timer)
		require.Equal(t, t.Context(), ctx)
	})
}
