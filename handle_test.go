package watchdog_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
	"github.com/seed62658d38/watchdog/internal/handle"
)

// TestHandle says whose handle a context carries, and for whom a sign of life in it is.
func TestHandle(t *testing.T) {
	type key struct{}
	run := guard(t, watchdog.Config{})
	layer := openLayer(t, run, "step", watchdog.Budget{})
	ofRun, ofLayer := handle.Of(run.Context()), handle.Of(layer.Context())
	try := func(ctx context.Context, wd *watchdog.Watchdog, look func(context.Context)) {
		require.NoError(t, wd.Try(ctx, func(ctx context.Context) error { look(ctx); return nil }))
	}
	t.Run("a run and a layer carry their own", func(t *testing.T) {
		require.NotSame(t, ofRun, ofLayer)
		for _, wd := range []*watchdog.Watchdog{run, layer} {
			inside, cancel := context.WithCancel(context.WithValue(wd.Context(), key{}, 1))
			defer cancel()
			require.Same(t, wd, watchdog.FromContext(inside))
			require.Same(t, handle.Of(wd.Context()), handle.Of(inside))
			require.Same(t, handle.Of(inside), handle.SignsOf(inside))
		}
	})
	t.Run("the session of both is the run, whatever run is around it", func(t *testing.T) {
		deeper := openLayer(t, layer, "tool", watchdog.Budget{})
		for _, wd := range []*watchdog.Watchdog{run, layer, deeper} {
			require.Same(t, run, watchdog.FromContext(handle.Of(wd.Context()).Session()))
		}
		inside := attachTo(layer.Context(), t, watchdog.Run{}, watchdog.Config{})
		require.Same(t, inside, watchdog.FromContext(handle.Of(inside.Context()).Session()))
	})
	t.Run("the work of a Try that of the run that tries", func(t *testing.T) {
		for _, in := range []context.Context{t.Context(), run.Context(), layer.Context()} {
			try(in, run, func(ctx context.Context) { require.Same(t, ofRun, handle.Of(ctx)) })
			try(in, layer, func(ctx context.Context) { require.Same(t, ofLayer, handle.Of(ctx)) })
			require.Same(t, ofLayer, handle.Of(ofLayer.Within(in)))
		}
	})
	t.Run("a timer takes the signs and leaves the run", func(t *testing.T) {
		timed, timer := idle.WithLimit(run.Context(), time.Hour)
		defer timer.Close()
		require.Same(t, ofRun, handle.Of(timed))
		require.NotNil(t, handle.TimerOf(timed))
		require.Nil(t, handle.TimerOf(run.Context()), "a run is no timer")
		try(timed, layer, func(ctx context.Context) { require.NotNil(t, handle.TimerOf(ctx)) })
	})
	t.Run("where there is no run there is none", func(t *testing.T) {
		var none *watchdog.Watchdog
		for _, ctx := range []context.Context{none.Context(), t.Context(), context.WithValue(t.Context(), key{}, run)} {
			require.Nil(t, handle.Of(ctx))
			require.Nil(t, handle.SignsOf(ctx))
			require.Nil(t, watchdog.FromContext(ctx))
		}
	})
	t.Run("it costs no allocation", func(t *testing.T) {
		ctx := run.Context()
		require.Zero(t, testing.AllocsPerRun(100, func() {
			handle.Of(ctx).Alive()
			handle.SignsOf(ctx).AliveAt(time.Now())
			_ = handle.Of(ctx).Settings()
		}))
	})
}

// TestFresh protects the runs inside of one that reads nothing: they read their own events.
func TestFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &watchdog.Memory{}
		cfg := watchdog.Config{Store: store, Budget: watchdog.Budget{WallClock: time.Hour}}
		old := watchdog.Run{ID: "s-1", StartedAt: time.Now()}
		time.Sleep(2 * time.Hour)
		fresh, err := cfg.Begin(handle.Fresh{Context: t.Context()}, old)
		require.NoError(t, err)
		defer fresh.Close()
		require.Nil(t, fresh.Stop())
		require.Equal(t, time.Now().UTC(), fresh.StartedAt(), "it begins now")

		inside := attachTo(fresh.Context(), t, old, cfg)
		require.ErrorIs(t, inside.Stop(), watchdog.WallClockExceeded)
	})
}
