package bound_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/benbjohnson/clock"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
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
	t.Run("is cancelled and not timed out", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
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
	})
	t.Run("has a grace to return, in which its limit does not count", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			out := bound.Do(cutAfter(t, 55*time.Second), tick, ignoring(63*time.Second, errTick))
			require.Equal(t, bound.LayerOutside, out.Layer)
			require.False(t, out.Abandoned)
			require.Equal(t, "done", out.Result)
			require.ErrorIs(t, out.Err, errTick)
			require.ErrorIs(t, out.Err, errHostGone)
		})
	})
	t.Run("is abandoned a grace later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			out := bound.Do(cutAfter(t, time.Second), tick, ignoring(time.Hour, nil))
			require.Equal(t, bound.LayerOutside, out.Layer)
			require.True(t, out.Abandoned)
			require.Empty(t, out.Result)
			require.Equal(t, 11*time.Second+1, out.Elapsed)
			require.ErrorIs(t, out.Err, errHostGone)
			require.ErrorContains(t, out.Err, "was abandoned")
			time.Sleep(time.Hour)
		})
	})
	t.Run("has overrun where the limit came first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			out := bound.Do(cutAfter(t, time.Minute+2), tick, ignoring(65*time.Second, nil))
			require.Equal(t, bound.LayerSoft, out.Layer)
			require.NotErrorIs(t, out.Err, errHostGone)
		})
	})
	t.Run("ends by the deadline of that context, which is not its limit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), time.Second)
			defer stop()
			out := bound.Do(ctx, tick, obeying)
			require.Equal(t, bound.LayerOutside, out.Layer)
			require.ErrorIs(t, out.Err, context.DeadlineExceeded)
		})
	})
	t.Run("is not begun where that had ended before", func(t *testing.T) {
		ctx, cut := context.WithCancelCause(t.Context())
		cut(errHostGone)
		out := bound.Do(ctx, tick, func(context.Context) (string, error) { panic("begun") })
		require.Equal(t, bound.LayerOutside, out.Layer)
		require.ErrorIs(t, out.Err, errHostGone)
		require.Zero(t, out.Elapsed)
	})
	t.Run("inside another call has not overrun itself when that one did", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			outer := bound.Do(t.Context(), tick, func(ctx context.Context) (string, error) {
				inner := bound.Do(ctx, bound.Call{}, obeying)
				require.Equal(t, bound.LayerOutside, inner.Layer)
				require.Equal(t, time.Minute, overrunOf(t, inner.Err).Limit)
				return inner.Result, inner.Err
			})
			require.Equal(t, bound.LayerSoft, outer.Layer)
		})
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
	t.Run("has the run's last note in its outcome, its cause and its error", func(t *testing.T) {
		inRun(t, watchdog.Budget{}, func(t *testing.T, wd *watchdog.Watchdog) {
			out := bound.Do(wd.Context(), tick, func(ctx context.Context) (string, error) {
				watchdog.FromContext(ctx).Note("read_file")
				<-ctx.Done()
				require.Equal(t, "read_file", overrunOf(t, context.Cause(ctx)).Note)
				watchdog.FromContext(ctx).Note("write_file")
				return "", nil
			})
			require.Equal(t, "write_file", out.Note)
			require.ErrorContains(t, out.Err, "last noted: write_file")
			out = bound.Do(wd.Context(), tick, ignoring(0, nil))
			require.Equal(t, "write_file", out.Note)
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
	t.Run("is not bounded by that run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: &watchdog.Memory{}, Budget: watchdog.Budget{WallClock: time.Second}, ObserveOnly: true, Logger: quiet,
			})
			require.NoError(t, err)
			defer wd.Close()
			out := bound.Do(wd.Context(), tick, ignoring(30*time.Second, nil))
			require.NoError(t, out.Err)
			require.Equal(t, time.Minute, out.Limit)
		})
	})
	t.Run("nor is one on the clock of a run for tests ended by the machine's", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
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
	})
}
