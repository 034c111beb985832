package watchdog_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestWarnedTogether protects a store and the host's memory from the warnings of many runs at one instant.
func TestWarnedTogether(t *testing.T) {
	const runs = 1000
	warned := watchdog.Budget{WallClock: time.Hour, WarnAt: []float64{0.5}}
	bubble := func(name string, test func(t *testing.T, store *countingStore, all []*watchdog.Watchdog, told *atomic.Int32)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store, told := &countingStore{}, &atomic.Int32{}
				test(t, store, attachAll(t, runs, func(int) watchdog.Config {
					return watchdog.Config{
						Store: store, Budget: warned, RecordTimeout: time.Second, OnWarning: func(watchdog.Warning) { told.Add(1) },
					}
				}), told)
			})
		})
	}
	bubble("they are recorded in a few appends and then told", func(t *testing.T, store *countingStore, all []*watchdog.Watchdog, told *atomic.Int32) {
		store.delay = 100 * time.Millisecond
		before := runtime.NumGoroutine()
		ringAt(30*minute, all)
		require.Less(t, runtime.NumGoroutine()-before, 100)
		require.Zero(t, told.Load())
		after(store.delay)
		require.EqualValues(t, runs, told.Load())
		require.Equal(t, runs, store.recorded(t, all, watchdog.EventWarning))
		require.LessOrEqual(t, len(store.appends), 4)
		require.Zero(t, ended(all))
		store.delay = 0
		closeAll(t, all)
	})
	bubble("one that is refused keeps no other from the store", func(t *testing.T, store *countingStore, all []*watchdog.Watchdog, told *atomic.Int32) {
		store.refused = "s-300"
		ringAt(30*minute, all)
		require.EqualValues(t, runs, told.Load())
		require.Equal(t, runs-1, store.recorded(t, all, watchdog.EventWarning))
		require.ErrorIs(t, all[300].Close(), errRefused)
		store.refused = ""
		closeAll(t, all)
		require.Equal(t, runs, store.recorded(t, all, watchdog.EventWarning))
	})
	bubble("Close waits for the one of its run, and no longer than it may", func(t *testing.T, store *countingStore, all []*watchdog.Watchdog, told *atomic.Int32) {
		hang := make(chan struct{})
		store.setHang(hang)
		ringAt(30*minute, all)
		go func() {
			time.Sleep(time.Second / 2)
			store.setHang(nil)
			close(hang)
		}()
		began := time.Now()
		require.NoError(t, all[3].Close())
		require.Equal(t, time.Second/2, time.Since(began))
		require.Equal(t, 1, store.recorded(t, all[3:4], watchdog.EventWarning))
		synctest.Wait()
		require.Equal(t, runs, store.recorded(t, all, watchdog.EventWarning))
		require.EqualValues(t, runs, told.Load())
		store.setHang(make(chan struct{}))
		ringAt(30*minute+1, all)
		began = time.Now()
		require.Error(t, all[4].Close())
		require.LessOrEqual(t, time.Since(began), 2*time.Second)
		store.setHang(nil)
		closeAll(t, all)
	})
	bubble("a store that hangs keeps them, and the host is told all the same", func(t *testing.T, store *countingStore, all []*watchdog.Watchdog, told *atomic.Int32) {
		hang := make(chan struct{})
		store.setHang(hang)
		store.ignoresContext = true
		ringAt(30*minute, all)
		after(time.Second - 1)
		require.Zero(t, told.Load())
		after(1)
		require.EqualValues(t, runs, told.Load())
		store.setHang(nil)
		close(hang)
		synctest.Wait()
		require.Equal(t, runs, store.recorded(t, all, watchdog.EventWarning), "stored late")
		store.appends = nil
		closeAll(t, all)
		require.Empty(t, store.appends, "and noted")
	})
	t.Run("directives that come with the run's end are recorded after it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &countingStore{}
			asked := watchdog.Budget{
				WallClock: time.Hour, WarnAt: []float64{}, Idle: 50 * minute,
				Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveWait, 9)},
			}
			all := attachAll(t, runs, func(int) watchdog.Config { return watchdog.Config{Store: store, Budget: asked} })
			store.before = func(context.Context) {
				store.mu.Lock()
				defer store.mu.Unlock()
				require.NotEmpty(t, store.transacts)
			}
			before := runtime.NumGoroutine()
			ringAt(time.Hour+1, all)
			require.Less(t, store.goroutines-before, 100)
			require.LessOrEqual(t, len(store.transacts)+len(store.appends), 8)
			require.Equal(t, runs, store.recorded(t, all, watchdog.EventCancel))
			require.Equal(t, runs, store.recorded(t, all, watchdog.EventWait))
			for _, wd := range all {
				require.Equal(t, []string{"wait 1", "cancel 1"}, polled(wd))
			}
			closeAll(t, all)
		})
	})
}
