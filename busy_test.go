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

// A host is busy or not, and counts how often it is asked.
type host struct {
	asked  atomic.Int64
	answer func() bool
}

func (h *host) busy() bool {
	h.asked.Add(1)
	return h.answer()
}

func no() bool { return false }

// TestBusyMisbehaves protects a run from a callback that uses it: nobody waits for the other.
func TestBusyMisbehaves(t *testing.T) {
	var wd atomic.Pointer[watchdog.Watchdog]
	for name, call := range map[string]func(){
		"polls":               func() { wd.Load().Fired(); wd.Load().Poll(); wd.Load().Stop() },
		"asks how it stands":  func() { wd.Load().Remaining(); wd.Load().Elapsed(); wd.Load().SinceActivity() },
		"gives a sign itself": func() { wd.Load().Progress() },
		"opens a hold":        func() { _, _ = wd.Load().Hold(context.Background(), "tool", noCap) },
		"makes a layer":       func() { _, _ = wd.Load().Layer("step", watchdog.Budget{}) },
		"cancels":             func() { _, _ = wd.Load().Cancel(watchdog.Cancellation{Reason: "host_gone"}) },
		"completes":           func() { _ = wd.Load().Complete() },
		"closes":              func() { _ = wd.Load().Close() },
	} {
		for mode, pollOnly := range map[string]bool{"a timer": false, "polls": true} {
			h := &host{answer: func() bool { call(); return false }}
			cfg := watchdog.Config{
				Budget: watchdog.Budget{WallClock: watchdog.NoLimit, Idle: minute}, Busy: h.busy, PollOnly: pollOnly,
			}
			runBubble(t, name+", with "+mode, cfg, func(t *testing.T, guarded *watchdog.Watchdog, _ *flakyStore) {
				wd.Store(guarded)
				began := time.Now()
				after(minute + 1)
				_, _ = guarded.Fired()
				synctest.Wait()
				require.Equal(t, minute+1, time.Since(began))
				require.EqualValues(t, 1, h.asked.Load())
			})
		}
	}
}

// TestBusyOnce has the timer and polls find a limit exceeded at one instant.
func TestBusyOnce(t *testing.T) {
	for range 50 {
		h := &host{answer: no}
		inBubble(t, watchdog.Config{Budget: watchdog.Budget{Idle: minute}, Busy: h.busy}, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
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
	runSynced(t, "two thousand runs are stopped together", func(t *testing.T) {
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
	runSynced(t, "an answer decides although the run around ends before that of another", func(t *testing.T) {
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
			openLayer(t, all[0], name, watchdog.Budget{
				Idle: minute, Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveWait}},
			})
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
