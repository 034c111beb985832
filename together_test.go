package watchdog_test

import (
	"context"
	"fmt"
	"runtime"
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
	runSynced(t, "a store whose values cannot be compared", func(t *testing.T) {
		store := taggedStore{&countingStore{}, []string{"a"}}
		all := attachAll(t, 100, with(store))
		ringAt(time.Hour+1, all)
		require.Equal(t, len(all), ended(all))
		require.Equal(t, len(all), store.recorded(t, all, watchdog.EventCancel))
		closeAll(t, all)
	})
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
}
