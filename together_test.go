package watchdog_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// sum is the total of what a store was asked for.
func sum(asked []int) (n int) {
	for _, one := range asked {
		n += one
	}
	return n
}

// hourly is a run of an hour without warnings.
var hourly = watchdog.Budget{WallClock: time.Hour, WarnAt: []float64{}}

// attachAll attaches to runs that have their limits at one instant and are rung together.
func attachAll(t *testing.T, runs int, config func(i int) watchdog.Config) []*watchdog.Watchdog {
	t.Helper()
	all, start := make([]*watchdog.Watchdog, runs), time.Now()
	for i := range all {
		cfg := config(i)
		if cfg.Logger == nil {
			cfg.Logger = quiet
		}
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: fmt.Sprint("s-", i), StartedAt: start}, cfg)
		require.NoError(t, err)
		watchdog.StopTimer(wd)
		all[i] = wd
	}
	return all
}

// ringAt rings the runs when they are d old, and waits for all that happens then.
func ringAt(d time.Duration, all []*watchdog.Watchdog) {
	time.Sleep(d)
	watchdog.RingAll(all...)
	synctest.Wait()
}

func ended(all []*watchdog.Watchdog) (n int) {
	for _, wd := range all {
		if wd.Context().Err() != nil {
			n++
		}
	}
	return n
}

func closeAll(t *testing.T, all []*watchdog.Watchdog) {
	t.Helper()
	for _, wd := range all {
		require.NoError(t, wd.Close())
	}
}

// TestTogether protects a store, and the host's memory, from an exchange and a goroutine for each of many runs that
// trip at one instant.
func TestTogether(t *testing.T) {
	const runs = 1000
	with := func(store watchdog.EventStore) func(int) watchdog.Config {
		return func(int) watchdog.Config {
			return watchdog.Config{Store: store, Budget: hourly, RecordTimeout: time.Second}
		}
	}
	bubble := func(name string, test func(t *testing.T, store *countingStore)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, &countingStore{}) })
		})
	}
	bubble("a thousand runs of one instant are recorded in a few transactions", func(t *testing.T, store *countingStore) {
		all := attachAll(t, runs, with(store))
		ringAt(time.Hour+1, all)
		require.Equal(t, runs, ended(all))
		for _, wd := range all {
			requireStop(t, wd, watchdog.WallClockExceeded)
		}
		require.Equal(t, runs, store.recorded(t, all, watchdog.EventCancel))
		require.Equal(t, runs, sum(store.transacts))
		require.LessOrEqual(t, len(store.transacts), 4)
		closeAll(t, all)
	})
	for _, ignoresContext := range []bool{false, true} {
		bubble(fmt.Sprintf("a store that hangs delays each by the record timeout, ignores its context: %v", ignoresContext), func(t *testing.T, store *countingStore) {
			all := attachAll(t, runs, with(store))
			hang, before := make(chan struct{}), runtime.NumGoroutine()
			store.setHang(hang)
			store.ignoresContext = ignoresContext
			ringAt(time.Hour+1, all)
			require.Less(t, runtime.NumGoroutine()-before, 20)
			after(time.Second - 1)
			require.Zero(t, ended(all))
			after(1)
			require.Equal(t, runs, ended(all))
			require.LessOrEqual(t, len(store.transacts), 2, "it is not asked again")
			store.setHang(nil)
			close(hang)
			synctest.Wait()
			closeAll(t, all)
			require.Equal(t, runs, store.recorded(t, all, watchdog.EventCancel))
		})
	}
	bubble("a store that is slow needs few goroutines for ten thousand runs", func(t *testing.T, store *countingStore) {
		all := attachAll(t, 10*runs, func(int) watchdog.Config { return watchdog.Config{Store: store, Budget: hourly} })
		store.delay = 50 * time.Millisecond
		before, began := runtime.NumGoroutine(), time.Now().Add(time.Hour)
		ringAt(time.Hour+1, all)
		for ended(all) < len(all) {
			after(store.delay)
		}
		require.LessOrEqual(t, time.Since(began), time.Second)
		require.Less(t, store.goroutines-before, 100)
		require.Equal(t, len(all), store.recorded(t, all, watchdog.EventCancel))
		store.delay = 0
		closeAll(t, all)
	})
	bubble("another process's extension takes back the one that it is of", func(t *testing.T, store *countingStore) {
		all := attachAll(t, runs, with(store))
		var once sync.Once
		store.before = func(context.Context) {
			once.Do(func() {
				other, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-7", StartedAt: all[7].StartedAt()},
					watchdog.Config{Store: &store.Memory, Logger: quiet, Budget: watchdog.Budget{WallClock: 3 * time.Hour}})
				require.NoError(t, err)
				require.NoError(t, other.Extend(time.Hour))
				require.NoError(t, other.Close())
			})
		}
		ringAt(time.Hour+1, all)
		require.Equal(t, runs-1, ended(all))
		requireRunning(t, all[7])
		after(time.Hour)
		requireStop(t, all[7], watchdog.WallClockExceeded)
		closeAll(t, all)
	})
	runSynced(t, "a store whose values cannot be compared", func(t *testing.T) {
		store := taggedStore{&countingStore{}, []string{"a"}}
		all := attachAll(t, 100, with(store))
		ringAt(time.Hour+1, all)
		require.Equal(t, len(all), ended(all))
		require.Equal(t, len(all), store.recorded(t, all, watchdog.EventCancel))
		closeAll(t, all)
	})
	for _, logs := range []string{"the log of one", "the log of all"} {
		bubble(logs+" hangs, and all runs end", func(t *testing.T, store *countingStore) {
			blocking, before := newBlockingLog(), runtime.NumGoroutine()
			all := attachAll(t, 10*runs, func(i int) watchdog.Config {
				cfg := with(store)(i)
				if logs == "the log of all" || i == 7 {
					cfg.Logger = slog.New(blocking)
				}
				return cfg
			})
			ringAt(time.Hour+1, all)
			require.Equal(t, len(all), ended(all))
			require.Positive(t, blocking.blocked.Load())
			require.Less(t, runtime.NumGoroutine()-before, 100)
			close(blocking.block)
			closeAll(t, all)
		})
	}
}

// A taggedStore cannot be compared.
type taggedStore struct {
	*countingStore
	tags []string
}

// TestWarnedTogether protects a store and the host's memory from the warnings of many runs at one instant.
func TestWarnedTogether(t *testing.T) {
	const runs = 1000
	warned := watchdog.Budget{WallClock: time.Hour, WarnAt: []float64{0.5}}
	bubble := func(name string, test func(t *testing.T, store *countingStore, all []*watchdog.Watchdog, told *atomic.Int32)) {
		runSynced(t, name, func(t *testing.T) {
			store, told := &countingStore{}, &atomic.Int32{}
			test(t, store, attachAll(t, runs, func(int) watchdog.Config {
				return watchdog.Config{
					Store: store, Budget: warned, RecordTimeout: time.Second, OnWarning: func(watchdog.Warning) { told.Add(1) },
				}
			}), told)
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
	runSynced(t, "directives that come with the run's end are recorded after it", func(t *testing.T) {
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
}
