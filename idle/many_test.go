package idle_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/idle"
)

// TestMany makes, widens, beats and closes 100,000 guards from many goroutines, and looks at what is left.
func TestMany(t *testing.T) {
	const goroutines, each = 50, 2000
	before := heapInUse()
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	var working sync.WaitGroup
	for range goroutines {
		working.Go(func() {
			for i := range each {
				ctx, timer := idle.WithLimit(parent, time.Hour)
				narrow := timer.Widen(2 * time.Hour)
				var beating sync.WaitGroup
				beating.Go(timer.Alive)
				timer.Alive()
				narrow()
				beating.Wait()
				timer.Close()
				if !errors.Is(context.Cause(ctx), context.Canceled) {
					t.Errorf("guard %d ended with %v", i, context.Cause(ctx))
				}
			}
		})
	}
	working.Wait()
	const most = 4 << 20 // 42 bytes a guard; one that was kept would be ten times that
	require.Less(t, heapInUse(), before+most)
}

// heapInUse is what is reachable.
func heapInUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
