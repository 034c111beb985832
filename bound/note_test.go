package bound_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
)

// noting is work that notes and then takes a time, whatever happens to its context.
func noting(what string, d time.Duration) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		bound.Note(ctx, what)
		time.Sleep(d)
		return "done", nil
	}
}

func TestNote(t *testing.T) {
	bubble(t, "of work outside of a run is in the outcome, the cause, the error and the list of abandoned calls", func(t *testing.T) {
		call, calls, _ := keyed()
		out := bound.Do(t.Context(), call, func(ctx context.Context) (string, error) {
			bound.Note(ctx, "read_file")
			bound.Note(ctx, "write_file")
			<-ctx.Done()
			require.Equal(t, "write_file", overrunOf(t, context.Cause(ctx)).Note)
			time.Sleep(time.Hour)
			return "", nil
		})
		require.Equal(t, "write_file", out.Note)
		require.Equal(t, "write_file", overrunOf(t, out.Err).Note)
		require.ErrorContains(t, out.Err, "last noted: write_file")
		require.Equal(t, "write_file", calls.Abandoned()[0].Note)
		time.Sleep(time.Hour)
	})
	t.Run("is in the outcome of a call in time, too, through contexts made from the call's", func(t *testing.T) {
		out := bound.Do(t.Context(), tick, func(ctx context.Context) (string, error) {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			return noting("grep", 0)(ctx)
		})
		require.NoError(t, out.Err)
		require.Equal(t, "grep", out.Note)
	})
	t.Run("is kept as a run keeps it", func(t *testing.T) {
		out := bound.Do(t.Context(), tick, noting("a\nb\xff"+strings.Repeat("x", 300), 0))
		require.Equal(t, "a b\uFFFD"+strings.Repeat("x", 196), out.Note)
	})
	t.Run("is on record for the calls around it, and not for the next call or one beside it", func(t *testing.T) {
		outer := bound.Do(t.Context(), tick, func(ctx context.Context) (string, error) {
			bound.Note(ctx, "plan")
			inner := bound.Do(ctx, tick, noting("grep", 0))
			require.Equal(t, "grep", inner.Note)
			require.Empty(t, bound.Do(ctx, tick, ignoring(0, nil)).Note)
			return "", nil
		})
		require.Equal(t, "grep", outer.Note)
	})
	bubble(t, "of an abandoned call is dropped, as is that of a call in it", func(t *testing.T) {
		wd := watched(t, watchdog.Config{Store: &watchdog.Memory{}})
		outer := bound.Do(wd.Context(), bound.Call{}, func(ctx context.Context) (string, error) {
			bound.Note(ctx, "plan")
			bound.Do(ctx, tick, func(ctx context.Context) (string, error) {
				time.Sleep(2 * time.Minute)
				bound.Note(ctx, "too late")
				bound.Do(context.WithoutCancel(ctx), tick, noting("later still", 0))
				return "", nil
			})
			time.Sleep(5 * time.Minute)
			return "", nil
		})
		require.Equal(t, "plan", outer.Note)
		require.Equal(t, "plan", wd.LastNote())
	})
	bubble(t, "in a run is the run's, too; the call's own note comes before the run's", func(t *testing.T) {
		wd := watched(t, watchdog.Config{Store: &watchdog.Memory{}})
		wd.Note("plan")
		require.Equal(t, "plan", bound.Do(wd.Context(), tick, ignoring(0, nil)).Note)
		out := bound.Do(wd.Context(), tick, func(ctx context.Context) (string, error) {
			bound.Note(ctx, "grep")
			require.Equal(t, "grep", wd.LastNote())
			wd.Note("something beside it")
			return "", nil
		})
		require.Equal(t, "grep", out.Note)
		bound.Note(wd.Context(), "between calls")
		require.Equal(t, "between calls", wd.LastNote())
	})
	t.Run("is nobody's where there is neither call nor run", func(t *testing.T) {
		require.NotPanics(t, func() { bound.Note(t.Context(), "read_file") })
	})
	bubble(t, "can be made by many goroutines at once, also when the call is abandoned", func(t *testing.T) {
		out := bound.Do(t.Context(), tick, func(ctx context.Context) (string, error) {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range 100 {
						bound.Note(ctx, "grep")
						time.Sleep(time.Second)
					}
				})
			}
			all.Wait()
			return "", nil
		})
		require.True(t, out.Abandoned)
		require.Equal(t, "grep", out.Note)
		time.Sleep(time.Hour)
	})
	t.Run("costs few allocations", func(t *testing.T) {
		bound.Do(t.Context(), tick, func(ctx context.Context) (string, error) {
			require.LessOrEqual(t, testing.AllocsPerRun(100, func() { bound.Note(ctx, "read_file") }), 2.0)
			return "", nil
		})
	})
}

// watched attaches a run that began now and that the test's end closes.
func watched(t *testing.T, cfg watchdog.Config) *watchdog.Watchdog {
	t.Helper()
	cfg.Logger = quiet
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = wd.Close() })
	return wd
}
