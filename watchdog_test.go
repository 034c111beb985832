package watchdog_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/replay"
)

func TestWallClock(t *testing.T) {
	runFixture(t, "the stop tells what elapsed to the microsecond, as read from the store", func(b *fixture) {
		b.cfg.PollOnly = true
		wd := b.attach()
		b.pass(4*time.Hour + 1234567*time.Microsecond)
		require.Equal(b.t, 4*time.Hour+1234567*time.Microsecond, b.stopped(wd).Elapsed)
		require.Equal(b.t, wd.Stop(), b.attach().Stop())
	})
}

func TestPollOnly(t *testing.T) {
	b := newFixture(t)
	onCaller := false
	b.cfg.PollOnly, b.cfg.Store = true, beforeAppend(b.store, func() {
		stack := make([]byte, 1<<16)
		onCaller = strings.Contains(string(stack[:runtime.Stack(stack, false)]), "TestPollOnly")
	})
	b.clock.Add(5 * time.Hour)
	before := goroutines()
	b.stopped(b.attach())
	require.LessOrEqual(t, goroutines(), before)
	require.True(t, onCaller, "the store was called from another goroutine")
}

func TestClose(t *testing.T) {
	runFixture(t, "it ends the run without an event and can be called again", func(b *fixture) {
		wd := b.attach()
		require.NoError(b.t, wd.Close())
		require.NoError(b.t, wd.Close())
		require.ErrorIs(b.t, context.Cause(wd.Context()), watchdog.ErrClosed)
		b.pass(5 * time.Hour)
		_, fired := wd.Fired()
		require.False(b.t, fired)
		require.Zero(b.t, wd.Remaining())
		require.Empty(b.t, b.events(watchdog.EventCancel))
	})
	t.Run("a thousand armed watchdogs are no goroutine, and none is left behind them", func(t *testing.T) {
		before := goroutines()
		for range 1000 {
			guard(t, watchdog.Config{Store: &watchdog.Memory{}})
		}
		require.LessOrEqual(t, goroutines(), before)
	})
}

// TestSlowAttach protects a run from what its store took to answer: the host could give no sign of life meanwhile. The
// wall clock and safety count it, because they are about real time.
func TestSlowAttach(t *testing.T) {
	const slow = 3 * time.Second
	for name, test := range map[string]struct {
		budget watchdog.Budget
		after  time.Duration // that the attach is done
	}{
		"idle begins when the attach is done": {watchdog.Budget{Idle: time.Second}, time.Second},
		"so does no progress":                 {watchdog.Budget{NoProgress: time.Second}, time.Second},
		"and the wait for a first sign": {
			watchdog.Budget{Idle: time.Hour, FirstSign: 2 * time.Second, FromFirstSign: true}, 2 * time.Second,
		},
		"the wall clock does not": {watchdog.Budget{WallClock: 5 * time.Second}, 5*time.Second - slow},
		"nor does safety":         {watchdog.Budget{Safety: 4 * time.Second}, 4*time.Second - slow},
	} {
		runSynced(t, name, func(t *testing.T) {
			var trace []watchdog.Signal
			store := &hookedStore{EventStore: &watchdog.Memory{}}
			store.read = func() error {
				store.read = nil
				time.Sleep(slow)
				return nil
			}
			cfg := watchdog.Config{
				Store: store, Budget: test.budget, Logger: quiet,
				OnSignal: func(s watchdog.Signal) { trace = append(trace, s) },
			}
			began := time.Now()
			wd := attachTo(context.Background(), t, watchdog.Run{ID: "s-1", StartedAt: began}, cfg)
			require.GreaterOrEqual(t, time.Since(began), slow)
			time.Sleep(test.after - time.Since(began.Add(slow)))
			require.NoError(t, wd.Context().Err(), "at the limit itself it has not fired")
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			stop := wd.Stop()
			require.NotNil(t, stop)
			decided, err := replay.Run(test.budget, trace, false)
			require.NoError(t, err)
			require.NotEmpty(t, decided)
			require.Equal(t, stop.Code, decided[len(decided)-1].Reason)
			require.Equal(t, slow+test.after+1, decided[len(decided)-1].At)
		})
	}
}
