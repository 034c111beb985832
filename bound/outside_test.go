package bound_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/internal/handle"
)

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
		require.Equal(t, bound.LayerOutside, out.Layer)
		require.False(t, out.Overran())
		require.False(t, out.Abandoned)
		require.Equal(t, "half done", out.Result)
		require.Equal(t, context.Canceled, out.ResultErr)
		require.ErrorIs(t, out.Err, errHostGone)
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
	inRun := func(t *testing.T, budget watchdog.Budget, test func(t *testing.T, wd *watchdog.Watchdog)) {
		synctest.Test(t, func(t *testing.T) {
			budget.WarnAt = []float64{}
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: &watchdog.Memory{}, Budget: budget, Logger: quiet,
			})
			require.NoError(t, err)
			defer wd.Close()
			test(t, wd)
		})
	}
	t.Run("has no more than what is left of it less the reserve, and says whose limit that was", func(t *testing.T) {
		inRun(t, watchdog.Budget{WallClock: time.Minute, Reserve: 10 * time.Second}, func(t *testing.T, wd *watchdog.Watchdog) {
			time.Sleep(20 * time.Second)
			out := bound.Do(wd.Context(), tick, obeying)
			require.Equal(t, 30*time.Second, out.Limit)
			require.Equal(t, bound.LayerSoft, out.Layer)
			require.Equal(t, "s-1", overrunOf(t, out.Err).RunID)
			require.ErrorContains(t, out.Err, "all that run s-1 had left")
			_, fired := wd.Fired()
			require.False(t, fired)
		})
	})
	t.Run("has its own limit where that is less", func(t *testing.T) {
		inRun(t, watchdog.Budget{WallClock: time.Hour}, func(t *testing.T, wd *watchdog.Watchdog) {
			out := bound.Do(wd.Context(), tick, obeying)
			require.Equal(t, time.Minute, out.Limit)
			require.Empty(t, overrunOf(t, out.Err).RunID)
		})
	})
	t.Run("is not begun where there is nothing left", func(t *testing.T) {
		inRun(t, watchdog.Budget{WallClock: time.Minute, Reserve: 10 * time.Second}, func(t *testing.T, wd *watchdog.Watchdog) {
			time.Sleep(50 * time.Second)
			require.Equal(t, 10*time.Second, bound.Do(wd.Context(), tick, func(context.Context) (string, error) { return "", nil }).Limit, "the host may wrap up")
			time.Sleep(10 * time.Second)
			out := bound.Do(wd.Context(), tick, func(context.Context) (string, error) { panic("begun") })
			require.Equal(t, bound.LayerSoft, out.Layer)
			require.Zero(t, out.Elapsed)
			require.ErrorContains(t, out.Err, "run s-1 has no time left")
		})
	})
	t.Run("that is stopped by another limit is cancelled from outside, by the stop", func(t *testing.T) {
		inRun(t, watchdog.Budget{WallClock: time.Hour, Idle: 5 * time.Second}, func(t *testing.T, wd *watchdog.Watchdog) {
			out := bound.Do(wd.Context(), tick, obeying)
			require.Equal(t, bound.LayerOutside, out.Layer)
			require.Same(t, wd.Stop(), stopOf(t, out.Err))
		})
	})
	t.Run("that has ended is bounded by its own limit, to clean up in a detached context", func(t *testing.T) {
		inRun(t, watchdog.Budget{WallClock: time.Minute}, func(t *testing.T, wd *watchdog.Watchdog) {
			<-wd.Context().Done()
			out := bound.Do(context.WithoutCancel(wd.Context()), tick, ignoring(time.Second, nil))
			require.NoError(t, out.Err)
			require.Equal(t, "done", out.Result)
		})
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
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
			Store: &watchdog.Memory{}, Budget: watchdog.Budget{WallClock: time.Second}, ObserveOnly: true, Logger: quiet,
		})
		require.NoError(t, err)
		defer wd.Close()
		out := bound.Do(wd.Context(), tick, ignoring(30*time.Second, nil))
		require.NoError(t, out.Err)
		require.Equal(t, time.Minute, out.Limit)
	})
	bubble(t, "nor is one on the clock of a run for tests ended by the machine's", func(t *testing.T) {
		machine := clock.NewMock()
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: machine.Now()}, watchdog.Config{
			Store: &watchdog.Memory{}, Clock: machine, Logger: quiet,
		})
		require.NoError(t, err)
		defer wd.Close()
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

// TestWithin makes calls within a run whose context is not that of the call.
func TestWithin(t *testing.T) {
	newRun := func(t *testing.T, budget watchdog.Budget) *watchdog.Watchdog {
		wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{Budget: budget})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, wd.Close()) })
		return wd
	}
	why := func(ctx context.Context) (*watchdog.Watchdog, error) {
		<-ctx.Done()
		return watchdog.FromContext(ctx), context.Cause(ctx)
	}
	bubble(t, "a call ends with the run, and is one in it", func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{WallClock: time.Hour, Idle: time.Minute})
		out := bound.Do(within(context.Background(), wd), bound.Call{}, why)
		require.Equal(t, bound.LayerOutside, out.Layer)
		require.Same(t, wd, out.Result)
		require.ErrorIs(t, out.ResultErr, watchdog.IdleExceeded)
	})
	bubble(t, "and with its context", func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{})
		out := bound.Do(within(cutAfter(t, time.Second), wd), bound.Call{}, why)
		require.Equal(t, bound.LayerOutside, out.Layer)
		require.Equal(t, errHostGone, out.ResultErr)
		require.Nil(t, wd.Stop())
	})
	bubble(t, "a directive ends it, and those at the same time", func(t *testing.T) {
		wd := newRun(t, watchdog.Budget{
			Idle: time.Minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry}},
		})
		ends := make(chan error)
		for range 3 {
			go func() { ends <- bound.Do(within(context.Background(), wd), bound.Call{}, why).ResultErr }()
		}
		bound.Do(within(context.Background(), wd), bound.Call{}, func(context.Context) (int, error) { return 1, nil })
		for range 3 {
			var asked *watchdog.Directive
			require.ErrorAs(t, <-ends, &asked)
		}
	})
	t.Run("in a run that has ended none is begun", func(t *testing.T) {
		wd, calls := newRun(t, watchdog.Budget{}), &bound.Calls{}
		require.NoError(t, wd.Close())
		for range 2 { // its key is free again
			out := bound.Do(within(context.Background(), wd), bound.Call{Key: "k", Calls: calls},
				func(context.Context) (int, error) { return 0, errors.New("it was begun") })
			require.Equal(t, bound.LayerOutside, out.Layer)
			require.ErrorIs(t, out.Err, watchdog.ErrEnded)
			require.ErrorIs(t, out.Err, watchdog.ErrClosed)
			require.NoError(t, out.ResultErr)
		}
	})
}

func within(ctx context.Context, wd *watchdog.Watchdog) context.Context {
	return handle.Of(wd.Context()).Within(ctx)
}
