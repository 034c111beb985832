package idle_test

import (
	"context"
	"errors"
	"sync"
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
