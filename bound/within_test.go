package bound_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/internal/handle"
)

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
	t.Run("a call ends with the run, and is one in it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			wd := newRun(t, watchdog.Budget{WallClock: time.Hour, Idle: time.Minute})
			out := bound.Do(within(context.Background(), wd), bound.Call{}, why)
			require.Equal(t, bound.LayerOutside, out.Layer)
			require.Same(t, wd, out.Result)
			require.ErrorIs(t, out.ResultErr, watchdog.IdleExceeded)
		})
	})
	t.Run("and with its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			wd := newRun(t, watchdog.Budget{})
			out := bound.Do(within(cutAfter(t, time.Second), wd), bound.Call{}, why)
			require.Equal(t, bound.LayerOutside, out.Layer)
			require.Equal(t, errHostGone, out.ResultErr)
			require.Nil(t, wd.Stop())
		})
	})
	t.Run("a directive ends it, and those at the same time", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
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
