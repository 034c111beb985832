package watchdog_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestSignalsNeverWait protects code that signals per token from a store that is slow: a signal never polls, records or
// waits.
func TestSignalsNeverWait(t *testing.T) {
	signals := map[string]func(*watchdog.Watchdog){
		"activity": (*watchdog.Watchdog).Activity,
		"progress": (*watchdog.Watchdog).Progress,
		"a digest": func(wd *watchdog.Watchdog) { wd.ProgressDigest("new") },
		"a note":   func(wd *watchdog.Watchdog) { wd.Note("tool") },
		"an event": func(wd *watchdog.Watchdog) { wd.Observe("token") },
	}
	budget := watchdog.Budget{WallClock: time.Minute, WarnAt: []float64{}, Idle: time.Hour, FromFirstSign: true}
	for name, pollOnly := range map[string]bool{"with a timer": false, "without one": true} {
		for what, signal := range signals {
			t.Run(what+" as the first sign, of a run that is late, while the store hangs, "+name, func(t *testing.T) {
				cfg := watchdog.Config{Budget: budget, PollOnly: pollOnly, Kinds: watchdog.Kinds{Activity: []string{"token"}}}
				inBubble(t, cfg, func(wd *watchdog.Watchdog, store *flakyStore) {
					hang := make(chan struct{})
					store.set(func(s *flakyStore) { s.hang = hang })
					after(time.Minute + 1) // with a timer the stop is being recorded now
					began := time.Now()
					signal(wd)
					require.Zero(t, time.Since(began))
					close(hang)
					synctest.Wait()
					_, fired := wd.Fired() // which is where a run without a timer is stopped
					require.True(t, fired)
					requireStop(t, wd, watchdog.WallClockExceeded)
				})
			})
		}
	}
	t.Run("the first sign without a timer has the next poll look", func(t *testing.T) {
		budget := watchdog.Budget{Idle: 10 * time.Millisecond, FromFirstSign: true}
		inBubble(t, watchdog.Config{Budget: budget, PollOnly: true}, func(wd *watchdog.Watchdog, _ *flakyStore) {
			requireRunning(t, wd) // and may be quiet for a second
			wd.Activity()
			after(11 * time.Millisecond)
			_, fired := wd.Fired()
			require.True(t, fired)
			requireStop(t, wd, watchdog.IdleExceeded)
		})
	})
}

func TestOnSignal(t *testing.T) {
	budget := watchdog.Budget{WallClock: time.Hour, Idle: time.Minute}
	t.Run("may call the watchdog, and is told in order, one signal at a time", func(t *testing.T) {
		var told []string
		var wd *watchdog.Watchdog
		inside := 0
		cfg := watchdog.Config{Budget: budget, OnSignal: func(s watchdog.Signal) {
			inside++
			require.Equal(t, 1, inside)
			told = append(told, s.Kind)
			if s.Kind == watchdog.SignalHold {
				wd.Activity()
				_, _ = wd.Fired()
				require.Positive(t, wd.Remaining())
				require.NoError(t, wd.Extend(time.Minute))
				require.NoError(t, wd.Close())
			}
			inside--
		}}
		inBubble(t, cfg, func(run *watchdog.Watchdog, _ *flakyStore) {
			wd = run
			wd.Progress()
			_, err := wd.Hold(context.Background(), "tool", watchdog.HoldLimit{})
			require.NoError(t, err)
			synctest.Wait()
		})
		require.Equal(t, []string{
			watchdog.SignalAttach, watchdog.SignalProgress, watchdog.SignalHold, watchdog.SignalActivity, watchdog.SignalExtend, watchdog.SignalEnd,
		}, told)
	})
	t.Run("that blocks keeps nobody else from signalling, polling or closing", func(t *testing.T) {
		var block chan struct{}
		cfg := watchdog.Config{Budget: budget, OnSignal: func(s watchdog.Signal) {
			if s.Kind == watchdog.SignalProgress {
				<-block
			}
		}}
		inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
			block = make(chan struct{})
			go wd.Progress()
			synctest.Wait()
			wd.Activity()
			requireRunning(t, wd)
			require.NoError(t, wd.Close())
			close(block)
			synctest.Wait()
		})
	})
	t.Run("that blocks while the timer looks does not keep the timer from other runs", func(t *testing.T) {
		var block chan struct{}
		cfg := watchdog.Config{Budget: watchdog.Budget{WallClock: time.Minute}, OnSignal: func(s watchdog.Signal) {
			if s.Kind == watchdog.SignalEnd {
				<-block
			}
		}}
		inBubble(t, cfg, func(wd *watchdog.Watchdog, store *flakyStore) {
			block = make(chan struct{})
			other, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-2", StartedAt: time.Now()},
				watchdog.Config{Store: store, Logger: quiet, Budget: watchdog.Budget{WallClock: time.Minute}})
			require.NoError(t, err)
			defer other.Close()
			after(time.Minute + 1)
			require.Error(t, wd.Context().Err())
			requireStop(t, other, watchdog.WallClockExceeded)
			close(block)
			synctest.Wait()
		})
	})
	t.Run("that blocks at the end does not keep anybody from the stop", func(t *testing.T) {
		var block chan struct{}
		told := 0
		cfg := watchdog.Config{Budget: watchdog.Budget{WallClock: time.Minute}, OnSignal: func(s watchdog.Signal) {
			if s.Kind == watchdog.SignalEnd {
				<-block
			}
		}}
		inBubble(t, cfg, func(wd *watchdog.Watchdog, store *flakyStore) {
			block = make(chan struct{})
			hang := make(chan struct{})
			store.set(func(s *flakyStore) { s.hang = hang })
			wd.Subscribe(func(watchdog.Directive) { told++ })
			after(time.Minute + 1)
			fired := make(chan bool, 1)
			go func() { // waits for the stop that is being recorded
				_, ok := wd.Fired()
				fired <- ok
			}()
			synctest.Wait()
			close(hang)
			synctest.Wait()
			require.Len(t, fired, 1)
			require.True(t, <-fired)
			require.Equal(t, 1, told)
			close(block)
			synctest.Wait()
		})
	})
	t.Run("that panics is logged and does no harm", func(t *testing.T) {
		var log bytes.Buffer
		cfg := watchdog.Config{Budget: budget, OnSignal: func(watchdog.Signal) { panic("a host's") }}
		synctest.Test(t, func(t *testing.T) {
			cfg.Store, cfg.Logger = &watchdog.Memory{}, slog.New(slog.NewTextHandler(&log, nil))
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
			require.NoError(t, err)
			defer wd.Close()
			wd.Activity()
			requireRunning(t, wd)
		})
		require.Contains(t, log.String(), "OnSignal")
	})
}
