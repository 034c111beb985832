package watchdog_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
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

func yes() bool { return true }
func no() bool  { return false }

// inBusyBubble guards a run of a minute of silence on the bubble's own clock, with a timer and without one.
func inBusyBubble(
	t *testing.T, name string, cfg watchdog.Config, answer func() bool,
	test func(t *testing.T, wd *watchdog.Watchdog, h *host),
) {
	t.Helper()
	for mode, pollOnly := range map[string]bool{" with a timer": false, " polling": true} {
		t.Run(name+mode, func(t *testing.T) {
			h := &host{answer: answer}
			cfg.Busy, cfg.PollOnly = h.busy, pollOnly
			if cfg.Budget.Idle == 0 {
				cfg.Budget.Idle = minute
			}
			inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) { test(t, wd, h) })
		})
	}
}

// pollAfter polls when that much time has passed, which a run without a timer needs.
func pollAfter(wd *watchdog.Watchdog, d time.Duration) {
	after(d)
	_, _ = wd.Fired()
	synctest.Wait()
}

func TestBusy(t *testing.T) {
	endless := watchdog.Config{Budget: watchdog.Budget{WallClock: watchdog.NoLimit}}
	backlog := make(chan string, 3)
	inBusyBubble(t, "messages that wait are life, until they are taken", endless,
		func() bool { return len(backlog) > 0 },
		func(t *testing.T, wd *watchdog.Watchdog, h *host) {
			backlog <- "one"
			for n := range int64(5) {
				pollAfter(wd, minute)
				require.Equal(t, n, h.asked.Load(), "not before the limit is exceeded")
				pollAfter(wd, 1)
				require.Equal(t, n+1, h.asked.Load())
				requireRunning(t, wd)
			}
			<-backlog
			pollAfter(wd, minute)
			requireRunning(t, wd)
			pollAfter(wd, 1)
			require.Equal(t, minute, requireStop(t, wd, watchdog.IdleExceeded).Elapsed, "to the microsecond")
			require.EqualValues(t, 6, h.asked.Load())
		})
	ladder := endless
	ladder.Budget.Ladders.Idle = []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveUnstuck}
	inBusyBubble(t, "it is asked once for each trip of a ladder", ladder, no,
		func(t *testing.T, wd *watchdog.Watchdog, h *host) {
			for range 3 {
				pollAfter(wd, minute+1)
			}
			requireStop(t, wd, watchdog.IdleExceeded)
			require.EqualValues(t, 3, h.asked.Load())
		})
	waits := endless
	waits.Budget.Ladders.Idle = many(watchdog.DirectiveWait, 1)
	inBusyBubble(t, "it is asked once in each stretch of silence that ends in a wait", waits, no,
		func(t *testing.T, wd *watchdog.Watchdog, h *host) {
			for n := range int64(3) {
				pollAfter(wd, time.Hour)
				pollAfter(wd, time.Hour)
				require.Equal(t, n+1, h.asked.Load())
				require.Len(t, askedOf(wd), 1)
				wd.Activity()
			}
		})
	inBusyBubble(t, "it is asked for the silence of a hold", endless, no,
		func(t *testing.T, wd *watchdog.Watchdog, h *host) {
			openIdle(t, wd, "tool", time.Hour)
			pollAfter(wd, time.Hour+1)
			require.Equal(t, "tool", requireStop(t, wd, watchdog.IdleExceeded).Hold)
			require.EqualValues(t, 1, h.asked.Load())
		})
	late := watchdog.Config{Budget: watchdog.Budget{WallClock: watchdog.NoLimit, FromFirstSign: true, FirstSign: 10 * time.Second}}
	inBusyBubble(t, "for the wait for the first sign, which it then is", late, yes,
		func(t *testing.T, wd *watchdog.Watchdog, h *host) {
			pollAfter(wd, 10*time.Second+1)
			require.EqualValues(t, 1, h.asked.Load())
			pollAfter(wd, minute)
			require.EqualValues(t, 1, h.asked.Load())
			pollAfter(wd, 1)
			require.EqualValues(t, 2, h.asked.Load())
			requireRunning(t, wd)
		})
	inBusyBubble(t, "no other limit asks", watchdog.Config{Budget: watchdog.Budget{
		WallClock: 2 * minute, Idle: time.Hour, NoProgress: minute, Ladders: watchdog.Ladders{NoProgress: many(watchdog.DirectiveWait, 1)},
	}}, yes, func(t *testing.T, wd *watchdog.Watchdog, h *host) {
		pollAfter(wd, 2*minute)
		require.Len(t, askedOf(wd), 1)
		pollAfter(wd, 1)
		requireStop(t, wd, watchdog.WallClockExceeded)
		require.Zero(t, h.asked.Load())
	})
	inBusyBubble(t, "a run that nothing guards does not ask", watchdog.Config{Disabled: true}, no,
		func(t *testing.T, wd *watchdog.Watchdog, h *host) {
			pollAfter(wd, time.Hour)
			require.Zero(t, h.asked.Load())
		})
	inBusyBubble(t, "a layer asks for itself, and a busy one is life of the run around", endless, yes,
		func(t *testing.T, wd *watchdog.Watchdog, h *host) {
			step := openLayer(t, wd, "build", watchdog.Budget{Idle: 40 * time.Second})
			pollAfter(step, 40*time.Second+1)
			require.EqualValues(t, 1, h.asked.Load())
			pollAfter(wd, 30*time.Second)
			require.EqualValues(t, 1, h.asked.Load())
			require.Equal(t, 30*time.Second, wd.SinceActivity())
		})
	observed := endless
	observed.ObserveOnly = true
	inBusyBubble(t, "it is asked before what is only observed", observed, no,
		func(t *testing.T, wd *watchdog.Watchdog, h *host) {
			pollAfter(wd, time.Hour)
			pollAfter(wd, time.Hour)
			require.EqualValues(t, 1, h.asked.Load())
			require.Len(t, askedOf(wd), 1)
		})
}

func TestBusyDropped(t *testing.T) {
	endless := watchdog.Config{Budget: watchdog.Budget{WallClock: watchdog.NoLimit, Idle: minute}}
	// inAsking has the host asked, and answers no when the test has done what happens meanwhile.
	inAsking := func(name string, cfg watchdog.Config, test func(t *testing.T, wd *watchdog.Watchdog, answer func(bool))) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				answers := make(chan bool, 1)
				cfg.Store, cfg.Logger = &flakyStore{}, quiet
				cfg.Busy = func() bool { return <-answers }
				wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
				require.NoError(t, err)
				defer wd.Close()
				after(minute + 1)
				requireRunning(t, wd)
				test(t, wd, func(busy bool) { answers <- busy; synctest.Wait() })
			})
		})
	}
	inAsking("a no is, if there was life meanwhile", endless,
		func(t *testing.T, wd *watchdog.Watchdog, answer func(bool)) {
			after(time.Second / 2)
			wd.Activity()
			answer(false)
			after(minute)
			requireRunning(t, wd)
		})
	inAsking("so is a yes, which is no life then", endless,
		func(t *testing.T, wd *watchdog.Watchdog, answer func(bool)) {
			after(time.Second / 4)
			wd.Activity()
			after(time.Second / 2)
			answer(true)
			require.Equal(t, time.Second/2, wd.SinceActivity())
		})
	inAsking("a hold that was opened meanwhile is life", endless,
		func(t *testing.T, wd *watchdog.Watchdog, answer func(bool)) {
			openHold(t, wd, "tool")
			answer(false)
			after(time.Hour)
			requireRunning(t, wd)
		})
	inAsking("a run that ended meanwhile has ended", endless,
		func(t *testing.T, wd *watchdog.Watchdog, answer func(bool)) {
			require.NoError(t, wd.Close())
			answer(true)
			require.ErrorIs(t, context.Cause(wd.Context()), watchdog.ErrClosed)
		})
	inAsking("one that was cancelled meanwhile has that code", endless,
		func(t *testing.T, wd *watchdog.Watchdog, answer func(bool)) {
			stop, err := wd.Cancel(watchdog.Cancellation{Reason: "host_gone"})
			require.NoError(t, err)
			require.EqualValues(t, "host_gone", stop.Code)
			answer(false)
			require.Same(t, stop, wd.Stop())
		})
	walled := watchdog.Config{Budget: watchdog.Budget{WallClock: minute + time.Second/2, Idle: minute}}
	inAsking("a wall clock that is exceeded meanwhile trips by itself", walled,
		func(t *testing.T, wd *watchdog.Watchdog, answer func(bool)) {
			after(time.Second / 2)
			requireStop(t, wd, watchdog.WallClockExceeded)
			answer(true)
		})
	inAsking("polls do not wait for an answer that the timer asked for", endless,
		func(t *testing.T, wd *watchdog.Watchdog, answer func(bool)) {
			began := time.Now()
			requireRunning(t, wd)
			require.Equal(t, began, time.Now())
			answer(false)
			requireStop(t, wd, watchdog.IdleExceeded)
		})
}

func TestBusyFirstInTime(t *testing.T) {
	for name, c := range map[string]struct {
		answer func() bool
		want   watchdog.StopReason
	}{
		"silence, if the host is not busy":  {no, watchdog.IdleExceeded},
		"the wall clock, if the host is so": {yes, watchdog.WallClockExceeded},
	} {
		for mode, pollOnly := range map[string]bool{" with a timer": false, " polling": true} {
			t.Run("of two limits that a late look finds, "+name+mode, func(t *testing.T) {
				inFixture(t, func(b *fixture) {
					b.cfg.PollOnly, b.cfg.Busy = pollOnly, c.answer
					b.cfg.Budget = watchdog.Budget{WallClock: time.Hour, Idle: minute}
					wd := b.attach()
					b.clock.suspend(2 * time.Hour)
					b.pass(time.Minute)
					requireStopAfterPoll(t, wd, c.want)
				})
			})
		}
	}
	t.Run("the silence before a cancel of the host's", func(t *testing.T) {
		inBubble(t, watchdog.Config{PollOnly: true, Busy: no, Budget: watchdog.Budget{Idle: minute}},
			func(wd *watchdog.Watchdog, _ *flakyStore) {
				after(2 * minute)
				stop, err := wd.Cancel(watchdog.Cancellation{Reason: "host_gone"})
				require.NoError(t, err)
				require.Equal(t, watchdog.IdleExceeded, stop.Code)
			})
	})
}

func requireStopAfterPoll(t *testing.T, wd *watchdog.Watchdog, want watchdog.StopReason) {
	t.Helper()
	_, _ = wd.Fired()
	synctest.Wait()
	requireStop(t, wd, want)
}

func TestBusyHangs(t *testing.T) {
	waits := watchdog.Budget{WallClock: watchdog.NoLimit, Idle: minute, Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveWait, 1)}}
	for mode, pollOnly := range map[string]bool{" with a timer": false, " polling": true} {
		t.Run("it counts as no, is logged once, and is not called again until it returns"+mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				hang := make(chan struct{})
				h := &host{answer: func() bool { <-hang; return true }}
				wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
					Store: &flakyStore{}, Logger: slog.New(slog.NewTextHandler(&log, nil)), Budget: waits, Busy: h.busy, PollOnly: pollOnly,
				})
				require.NoError(t, err)
				defer wd.Close()
				after(minute + 1)
				began := time.Now()
				_, _ = wd.Fired()
				if pollOnly {
					require.Equal(t, watchdog.BusyTimeout, time.Since(began))
				} else {
					require.Zero(t, time.Since(began))
					require.Empty(t, askedOf(wd))
					after(watchdog.BusyTimeout)
				}
				require.Len(t, askedOf(wd), 1)
				for range 3 {
					wd.Activity()
					pollAfter(wd, minute+1)
					require.Len(t, askedOf(wd), 1, "at the limit")
				}
				require.EqualValues(t, 1, h.asked.Load())
				require.Equal(t, 1, strings.Count(log.String(), "did not answer in time"))
				close(hang)
				synctest.Wait()
				wd.Activity()
				pollAfter(wd, minute+1)
				require.EqualValues(t, 2, h.asked.Load())
				require.Empty(t, askedOf(wd), "it answers again")
			})
		})
	}
	t.Run("what it says is dropped if the next silence is too long by then, for which it is asked again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			answers := make(chan bool, 1)
			h := &host{answer: func() bool { return <-answers }}
			budget := waits
			budget.Idle = 100 * time.Millisecond
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: &flakyStore{}, Logger: quiet, Budget: budget, Busy: h.busy,
			})
			require.NoError(t, err)
			defer wd.Close()
			after(100*time.Millisecond + 1)
			wd.Activity()
			after(100*time.Millisecond + 1)
			require.EqualValues(t, 1, h.asked.Load())
			require.Empty(t, askedOf(wd))
			answers <- false
			synctest.Wait()
			require.EqualValues(t, 2, h.asked.Load())
			require.Empty(t, askedOf(wd))
			answers <- false
			synctest.Wait()
			require.Len(t, askedOf(wd), 1)
		})
	})
}

func TestBusyMisbehaves(t *testing.T) {
	cfg := watchdog.Config{Budget: watchdog.Budget{WallClock: watchdog.NoLimit}}
	inBusyBubble(t, "one that panics counts as no", cfg, func() bool { panic("a host's") },
		func(t *testing.T, wd *watchdog.Watchdog, h *host) {
			pollAfter(wd, minute+1)
			requireStop(t, wd, watchdog.IdleExceeded)
			require.EqualValues(t, 1, h.asked.Load())
		})
	inBusyBubble(t, "so does one that ends its goroutine", cfg, func() bool { runtime.Goexit(); return true },
		func(t *testing.T, wd *watchdog.Watchdog, _ *host) {
			pollAfter(wd, minute+1)
			requireStop(t, wd, watchdog.IdleExceeded)
		})
	t.Run("a panic is logged", func(t *testing.T) {
		var log bytes.Buffer
		synctest.Test(t, func(t *testing.T) {
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: &watchdog.Memory{}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				Budget: watchdog.Budget{Idle: minute}, Busy: func() bool { panic("a host's") },
			})
			require.NoError(t, err)
			defer wd.Close()
			after(minute + 1)
		})
		require.Contains(t, log.String(), "in=Busy")
		require.NotContains(t, log.String(), "a host's")
	})
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
		inBusyBubble(t, "one that "+name+" waits for nothing", cfg, func() bool { call(); return false },
			func(t *testing.T, guarded *watchdog.Watchdog, h *host) {
				wd.Store(guarded)
				began := time.Now()
				pollAfter(guarded, minute+1)
				require.Equal(t, minute+1, time.Since(began))
				require.EqualValues(t, 1, h.asked.Load())
			})
	}
}
