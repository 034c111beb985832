package watchdog_test

import (
	"context"
	"fmt"
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
				inBubble(t, cfg, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
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
		inBubble(t, watchdog.Config{Budget: budget, PollOnly: true}, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
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
		inBubble(t, cfg, func(t *testing.T, run *watchdog.Watchdog, _ *flakyStore) {
			wd = run
			wd.Progress()
			openHold(t, wd, "tool", watchdog.HoldLimit{})
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
		inBubble(t, cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
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
}

// nine are warnings of one hour.
var nine = watchdog.Budget{
	WallClock: time.Hour, WarnAt: []float64{0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}, Idle: 20 * minute,
	Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveWait, 200)},
}

// TestBoundOfTheWhole protects a host from waiting once for each event while its store hangs.
func TestBoundOfTheWhole(t *testing.T) {
	const timeout = 200 * time.Millisecond
	took := func(call func()) time.Duration {
		began := time.Now()
		call()
		return time.Since(began)
	}
	// late guards a run that began an hour less a minute ago, so that one look finds all the warnings, or that found
	// nothing yet.
	late := func(t *testing.T, pollOnly bool, age time.Duration,
		test func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore),
	) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			store := &flakyStore{hang: make(chan struct{})}
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now().Add(-age)}, watchdog.Config{
				Store: store, Logger: quiet, RecordTimeout: timeout, PollOnly: pollOnly, Budget: nine,
			})
			require.NoError(t, err)
			test(t, wd, store)
			store.set(func(s *flakyStore) { s.hang = nil })
			require.NoError(t, wd.Close())
			if age > 0 {
				require.Len(t, warningsOf(t, store), 9, "kept until they are recorded")
			}
		})
	}
	for _, pollOnly := range []bool{false, true} {
		name := fmt.Sprintf(", poll-only %v", pollOnly)
		t.Run("Close waits at most twice the record timeout"+name, func(t *testing.T) {
			late(t, pollOnly, 59*minute, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
				require.LessOrEqual(t, took(func() { require.Error(t, wd.Close()) }), 2*timeout)
			})
		})
		for call, poll := range map[string]func(*watchdog.Watchdog){
			"Poll":  func(wd *watchdog.Watchdog) { wd.Poll() },
			"Fired": func(wd *watchdog.Watchdog) { wd.Fired() },
		} {
			t.Run(call+" that finds warnings, a directive and a stop ends the run as late, with more pending"+name, func(t *testing.T) {
				late(t, pollOnly, 0, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
					limit := time.Now().Add(time.Hour)
					time.Sleep(30 * minute)
					require.LessOrEqual(t, took(func() { poll(wd) }), timeout)
					time.Sleep(time.Until(limit) + 1)
					require.LessOrEqual(t, took(func() { poll(wd) }), timeout)
					require.ErrorIs(t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
				})
			})
		}
	}
	t.Run("Close waits no longer for others that try again at the moment at which it would", func(t *testing.T) {
		for range 50 {
			late(t, false, 0, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
				for range 20 {
					go func() {
						time.Sleep(time.Hour + 1 + timeout)
						wd.Fired()
					}()
				}
				time.Sleep(time.Hour + 1 + timeout/2)
				require.LessOrEqual(t, took(func() { require.Error(t, wd.Close()) }), 2*timeout)
				time.Sleep(time.Minute)
			})
		}
	})
	t.Run("with a timer a run ends at most the record timeout after its limit", func(t *testing.T) {
		late(t, false, 59*minute, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
			after(minute + timeout)
			require.NoError(t, context.Cause(wd.Context()), "at its limit")
			after(1)
			require.ErrorIs(t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
		})
	})
	runFixture(t, "what is found together is recorded together", func(b *fixture) {
		b.cfg.PollOnly, b.cfg.Budget = true, nine
		wd := b.attach()
		b.pass(55 * minute)
		b.live(wd)
		require.Equal(b.t, 1, b.store.appends)
		require.Len(b.t, b.events(watchdog.EventWait), 1)
	})
}

// warningsOf are the stored warnings that no directive follows.
func warningsOf(t *testing.T, store *flakyStore) (all []watchdog.Event) {
	t.Helper()
	events, err := store.Memory.Read(context.Background(), watchdog.AggregateType, "s-1")
	require.NoError(t, err)
	waits := 0
	for _, e := range events {
		switch e.Type {
		case watchdog.EventWarning:
			all = append(all, e)
		case watchdog.EventWait:
			waits++
		}
	}
	return all[waits:]
}
