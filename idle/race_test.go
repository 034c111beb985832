package idle_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/idle"
)

// TestRace ends a context by its silence, its parent and Close at one instant, and checks that all readers see one end.
func TestRace(t *testing.T) {
	for range 500 {
		synctest.Test(t, func(t *testing.T) {
			parent, cancel := context.WithTimeout(t.Context(), limit+1)
			defer cancel()
			ctx, timer := idle.WithLimit(parent, limit)
			var racing sync.WaitGroup
			racing.Go(func() { time.Sleep(limit); timer.Alive() })
			racing.Go(func() {
				<-ctx.Done()
				stop, stopped := timer.Stopped()
				var cause *watchdog.Stop
				assert.Equal(t, errors.As(context.Cause(ctx), &cause), stopped)
				assert.Same(t, cause, stop)
			})
			for range 2 {
				racing.Go(func() { time.Sleep(limit + 1); timer.Widen(limit)() })
			}
			racing.Go(func() { time.Sleep(limit + 1); timer.Close() })
			racing.Wait()
		})
	}
}

// TestRaceCancel has silence and the host end a context at one instant, which existed before its timer, and checks that
// Cancel is called where the silence did, and nowhere else.
func TestRaceCancel(t *testing.T) {
	for range 500 {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			var called atomic.Int64
			_, timer, err := idle.New(ctx, idle.Config{
				Limit: limit, Cancel: func(cause error) { called.Add(1); cancel(cause) },
			})
			assert.NoError(t, err)
			defer timer.Close()
			var racing sync.WaitGroup
			racing.Go(func() { time.Sleep(limit + 1); cancel(nil) })
			racing.Go(func() { time.Sleep(limit + 1); timer.Widen(limit)() })
			racing.Wait()
			pass(3 * limit)
			_, stopped := timer.Stopped()
			want := map[bool]int64{true: 1}[stopped]
			assert.Equal(t, want, called.Load())
		})
	}
}

// TestRaceBegin has many goroutines begin and end calls of the same IDs, and checks that none is left open.
func TestRaceBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, timer := newTimer(t, idle.Config{Limit: limit})
		var racing sync.WaitGroup
		for i := range 16 {
			racing.Go(func() {
				for n := range 1000 {
					id := ids[(i+n)%len(ids)]
					timer.Begin(id, time.Duration(n%3)*limit, idle.AtLeast)
					timer.Alive()
					timer.End(id)
				}
			})
		}
		racing.Wait()
		for _, id := range ids {
			timer.End(id)
		}
		pass(limit)
		requireAlive(ctx, t, timer)
		pass(time.Millisecond)
		requireSilent(ctx, t, timer, limit+1, limit)
	})
}
