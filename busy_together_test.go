package watchdog_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestBusyOnce has the timer and polls find a limit exceeded at one instant.
func TestBusyOnce(t *testing.T) {
	for range 50 {
		h := &host{answer: no}
		inBubble(t, watchdog.Config{Budget: watchdog.Budget{Idle: minute}, Busy: h.busy}, func(wd *watchdog.Watchdog, _ *flakyStore) {
			for range 8 {
				go func() {
					time.Sleep(minute + 1)
					_, _ = wd.Fired()
				}()
			}
			after(minute + 1)
			requireStop(t, wd, watchdog.IdleExceeded)
			require.EqualValues(t, 1, h.asked.Load())
		})
	}
}

// TestBusyTogether protects the store from an exchange for each of many runs that are asked at one instant, and them
// from a host that hangs.
func TestBusyTogether(t *testing.T) {
	const runs = 2_000
	budget := watchdog.Budget{WallClock: watchdog.NoLimit, Idle: minute}
	t.Run("two thousand runs are stopped together", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store, h := &countingStore{}, &host{answer: no}
			all := attachAll(t, runs, func(int) watchdog.Config {
				return watchdog.Config{Store: store, Budget: budget, RecordTimeout: time.Second, Busy: h.busy}
			})
			began := time.Now()
			ringAt(minute+1, all)
			require.Equal(t, runs, ended(all))
			require.Equal(t, minute+1, time.Since(began))
			require.EqualValues(t, runs, h.asked.Load())
			require.Equal(t, runs, sum(store.transacts))
			require.LessOrEqual(t, len(store.transacts), runs/100)
			require.Equal(t, runs, store.recorded(t, all, watchdog.EventCancel))
			closeAll(t, all)
		})
	})
	t.Run("one that hangs holds up only itself", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store, hang := &countingStore{}, make(chan struct{})
			all := attachAll(t, 1000, func(i int) watchdog.Config {
				cfg := watchdog.Config{Store: store, Budget: budget, RecordTimeout: time.Second, Busy: no}
				if i == 500 {
					cfg.Busy = func() bool { <-hang; return true }
				}
				return cfg
			})
			ringAt(minute+1, all)
			after(10 * time.Millisecond)
			require.Equal(t, 999, ended(all))
			store.mu.Lock()
			require.LessOrEqual(t, len(store.transacts), 10)
			store.mu.Unlock()
			after(watchdog.BusyTimeout)
			require.Equal(t, 1000, ended(all))
			close(hang)
			closeAll(t, all)
		})
	})
	t.Run("an answer decides although the run around ends before that of another", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var asked atomic.Int32
			notBusy, store := 0, &watchdog.Memory{}
			all := attachAll(t, 1, func(int) watchdog.Config {
				return watchdog.Config{
					Store: store, Budget: watchdog.Budget{WallClock: time.Hour},
					Busy: func() bool {
						if asked.Add(1) > 1 {
							time.Sleep(3 * time.Millisecond) // the first answer waits for this one
						}
						return false
					},
					OnSignal: func(s watchdog.Signal) {
						if s.Kind == watchdog.SignalNotBusy {
							notBusy++
						}
					},
				}
			})
			for _, name := range []string{"a", "b"} {
				_, err := all[0].Layer(name, watchdog.Budget{
					Idle: minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveWait}},
				})
				require.NoError(t, err)
			}
			watchdog.StopTimer(all[0])
			ringAt(minute+1, all)
			after(time.Millisecond)
			closeAll(t, all)
			after(time.Second)
			waits := 0
			for _, name := range []string{"a", "b"} {
				events, err := store.Read(t.Context(), watchdog.AggregateType, all[0].ID()+"/"+name)
				require.NoError(t, err)
				for _, e := range events {
					if e.Type == watchdog.EventWait {
						waits++
					}
				}
			}
			require.Equal(t, 1, waits)
			require.Equal(t, waits, notBusy)
		})
	})
	t.Run("those that are busy go on", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			all := attachAll(t, 1000, func(int) watchdog.Config {
				return watchdog.Config{Store: &watchdog.Memory{}, Budget: budget, Busy: yes}
			})
			ringAt(minute+1, all)
			require.Zero(t, ended(all))
			closeAll(t, all)
		})
	})
}

// TestBusyOnTheMachine asks on the timer of all runs, which a bubble does not have.
func TestBusyOnTheMachine(t *testing.T) {
	h := &host{}
	h.answer = func() bool { return h.asked.Load() <= 200 }
	var all []*watchdog.Watchdog
	for i := range 100 {
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: fmt.Sprint("s-", i), StartedAt: time.Now()}, watchdog.Config{
			Store: &watchdog.Memory{}, Logger: quiet, Busy: h.busy, Budget: watchdog.Budget{Idle: 20 * time.Millisecond},
		})
		require.NoError(t, err)
		all = append(all, wd)
	}
	for _, wd := range all {
		select {
		case <-wd.Context().Done():
			require.ErrorIs(t, wd.Stop(), watchdog.IdleExceeded)
		case <-time.After(time.Minute):
			t.Fatal("it goes on")
		}
	}
	require.EqualValues(t, 300, h.asked.Load())
	closeAll(t, all)
}
