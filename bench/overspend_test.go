package bench_test

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestOverspend is 64 calls that are made at once where one more fits. A host that checks what was used and adds to it
// when the call has come back makes them all.
func TestOverspend(t *testing.T) {
	const callers, fits = 64, 1
	t.Run("check, then add", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var used atomic.Int64
			inGoroutines(callers, func() {
				if used.Load() < fits {
					time.Sleep(time.Second) // the call
					used.Add(1)
				}
			})
			readme, err := os.ReadFile("../README.md")
			require.NoError(t, err)
			says := fmt.Sprintf("Where %d parallel calls check a cap and then add to it, by hand %d are too many", callers, used.Load()-fits)
			require.Contains(t, strings.Join(strings.Fields(string(readme)), " "), says)
		})
	})
	t.Run("admit, then settle", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{
				Budget: watchdog.Budget{Spend: watchdog.Spend{Requests: fits}},
			})
			require.NoError(t, err)
			defer wd.Close()
			var used atomic.Int64
			inGoroutines(callers, func() {
				charge, err := wd.Admit(t.Context(), "", watchdog.Amount{Requests: 1})
				if err == nil {
					time.Sleep(time.Second)
					used.Add(1)
					_ = charge.Settle(watchdog.Amount{Requests: 1})
				}
			})
			require.EqualValues(t, fits, used.Load())
		})
	})
}

// inGoroutines calls a func in n goroutines, and waits for them.
func inGoroutines(n int, call func()) {
	var all sync.WaitGroup
	for range n {
		all.Go(call)
	}
	all.Wait()
}
