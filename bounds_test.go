package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

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
	late := func(t *testing.T, pollOnly bool, age time.Duration, test func(wd *watchdog.Watchdog, store *flakyStore)) {
		t.Helper()
		synctest.Test(t, func(t *testing.T) {
			store := &flakyStore{hang: make(chan struct{})}
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now().Add(-age)}, watchdog.Config{
				Store: store, Logger: quiet, RecordTimeout: timeout, PollOnly: pollOnly, Budget: nine,
			})
			require.NoError(t, err)
			test(wd, store)
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
			late(t, pollOnly, 59*minute, func(wd *watchdog.Watchdog, _ *flakyStore) {
				require.LessOrEqual(t, took(func() { require.Error(t, wd.Close()) }), 2*timeout)
			})
		})
		t.Run("so it does while a stop is being recorded and others poll"+name, func(t *testing.T) {
			late(t, pollOnly, 0, func(wd *watchdog.Watchdog, _ *flakyStore) {
				time.Sleep(time.Hour + 1)
				for i := range 10 {
					go func() {
						time.Sleep(time.Duration(i) * timeout / 5)
						wd.Poll()
					}()
				}
				time.Sleep(timeout / 2)
				require.LessOrEqual(t, took(func() { require.Error(t, wd.Close()) }), 2*timeout)
				time.Sleep(time.Minute)
			})
		})
		for call, poll := range map[string]func(*watchdog.Watchdog){
			"Poll":  func(wd *watchdog.Watchdog) { wd.Poll() },
			"Fired": func(wd *watchdog.Watchdog) { wd.Fired() },
		} {
			t.Run(call+" waits at most the record timeout"+name, func(t *testing.T) {
				late(t, pollOnly, 59*minute, func(wd *watchdog.Watchdog, _ *flakyStore) {
					for range 3 {
						require.LessOrEqual(t, took(func() { poll(wd) }), timeout)
						time.Sleep(2 * time.Second) // polls in between are quiet
					}
				})
			})
			t.Run(call+" that finds warnings, a directive and a stop ends the run as late, with more pending"+name, func(t *testing.T) {
				late(t, pollOnly, 0, func(wd *watchdog.Watchdog, _ *flakyStore) {
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
			late(t, false, 0, func(wd *watchdog.Watchdog, _ *flakyStore) {
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
	t.Run("Cancel that finds nine warnings and a directive ends the run as late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &flakyStore{hang: make(chan struct{})}
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
				Store: store, Logger: quiet, RecordTimeout: timeout, PollOnly: true, Budget: nine,
			})
			require.NoError(t, err)
			time.Sleep(59 * minute)
			require.Equal(t, timeout, took(func() {
				_, err := wd.Cancel(noOutput)
				require.NoError(t, err)
			}))
			require.Equal(t, []string{"wait 1", "cancel 1"}, polled(wd))
			store.set(func(s *flakyStore) { s.hang = nil })
			require.NoError(t, wd.Close())
			require.Len(t, warningsOf(t, store), 9)
			require.Equal(t, 1, countEvents(t, store, watchdog.EventCancel))
		})
	})
	t.Run("with a timer a run ends at most the record timeout after its limit", func(t *testing.T) {
		late(t, false, 59*minute, func(wd *watchdog.Watchdog, _ *flakyStore) {
			after(minute + timeout)
			require.NoError(t, context.Cause(wd.Context()), "at its limit")
			after(1)
			require.ErrorIs(t, context.Cause(wd.Context()), watchdog.WallClockExceeded)
		})
	})
	t.Run("what is found together is recorded together", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.PollOnly, b.cfg.Budget = true, nine
			wd := b.attach()
			b.pass(55 * minute)
			b.live(wd)
			require.Equal(t, 1, b.store.appends)
			require.Len(t, b.events(watchdog.EventWait), 1)
		})
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

// A blockingHandler is a log that hangs.
type blockingHandler struct {
	slog.Handler
	block   chan struct{}
	blocked atomic.Int32
}

func newBlockingLog() *blockingHandler {
	return &blockingHandler{Handler: slog.DiscardHandler, block: make(chan struct{})}
}

func (h *blockingHandler) Enabled(context.Context, slog.Level) bool {
	h.blocked.Add(1)
	<-h.block
	return true
}

// TestHostThatBlocks protects every run, and every caller, from a log or a callback that does not return.
func TestHostThatBlocks(t *testing.T) {
	// The real clock: the runs of a bubble do not share their timer.
	t.Run("one log, and all runs end", func(t *testing.T) {
		blocking := newBlockingLog()
		defer close(blocking.block)
		requireAllEnd(t, 300, func(i int) *slog.Logger {
			if i == 150 {
				return slog.New(blocking)
			}
			return quiet
		})
	})
	t.Run("the log of all, and they end without a goroutine for each", func(t *testing.T) {
		const runs = 600
		blocking, before := newBlockingLog(), runtime.NumGoroutine()
		defer close(blocking.block)
		requireAllEnd(t, runs, func(int) *slog.Logger { return slog.New(blocking) })
		require.Less(t, runtime.NumGoroutine()-before, runs/10)
	})
	t.Run("a log that closes every run, and it waits for nothing", func(t *testing.T) {
		closer := &closingHandler{Handler: slog.DiscardHandler}
		requireAllEnd(t, 300, func(int) *slog.Logger { return slog.New(closer) }, closer.add)
	})
	block := func(cfg *watchdog.Config) (unblock func()) {
		blocking := newBlockingLog()
		cfg.Logger = slog.New(blocking)
		cfg.OnWarning = func(watchdog.Warning) { <-blocking.block }
		cfg.OnSignal = func(s watchdog.Signal) {
			if s.Kind != watchdog.SignalAttach {
				<-blocking.block
			}
		}
		return func() { close(blocking.block) }
	}
	for name, fail := range map[string]error{"the store answers": nil, "the store fails": errDiskFull} {
		t.Run("a log and callbacks, and no caller waits while "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &flakyStore{fail: fail}
				cfg := watchdog.Config{Store: store, Budget: nine, RecordTimeout: time.Second}
				unblock, never := block(&cfg), make(chan struct{})
				wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
				require.NoError(t, err)
				wd.Subscribe(func(watchdog.Directive) { <-never })
				began := time.Now()
				time.Sleep(30 * minute)
				_, fired := wd.Fired()
				require.False(t, fired)
				_, ok := wd.Poll()
				require.True(t, ok)
				require.Equal(t, 30*minute, time.Since(began), "no call waited")
				time.Sleep(30*minute + 1)
				_, fired = wd.Fired()
				require.True(t, fired)
				requireStop(t, wd, watchdog.WallClockExceeded)
				require.LessOrEqual(t, time.Since(began), time.Hour+1+cfg.RecordTimeout, "Fired found the stop")
				began = time.Now()
				require.ErrorIs(t, wd.Close(), fail)
				require.LessOrEqual(t, time.Since(began), 2*cfg.RecordTimeout)
				unblock()
				close(never)
				store.set(func(s *flakyStore) { s.fail = nil })
				require.NoError(t, wd.Close())
			})
		})
	}
	t.Run("OnSignal, and Close waits for it no longer than for the store", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cfg := watchdog.Config{Store: &flakyStore{}, Budget: nine, RecordTimeout: time.Second}
			unblock := block(&cfg)
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
			require.NoError(t, err)
			began := time.Now()
			require.NoError(t, wd.Close())
			require.LessOrEqual(t, time.Since(began), 2*time.Second)
			unblock()
		})
	})
	t.Run("for a moment, and who ends the run has it told before the call returns", func(t *testing.T) {
		for name, end := range map[string]func(*watchdog.Watchdog){
			"Close":     func(wd *watchdog.Watchdog) { wd.Close() },
			"Cancel":    func(wd *watchdog.Watchdog) { wd.Cancel(noOutput) },
			"Interrupt": func(wd *watchdog.Watchdog) { wd.Interrupt("SIGINT") },
		} {
			for _, pollOnly := range []bool{false, true} {
				var told atomic.Int32
				cfg := watchdog.Config{Budget: nine, PollOnly: pollOnly, OnSignal: func(s watchdog.Signal) {
					time.Sleep(time.Millisecond)
					if s.Kind == watchdog.SignalEnd {
						told.Add(1)
					}
				}}
				inBubble(t, cfg, func(wd *watchdog.Watchdog, _ *flakyStore) {
					end(wd)
					require.EqualValues(t, 1, told.Load(), name)
				})
			}
		}
	})
	t.Run("on the caller's goroutine, and the run has ended before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cfg := watchdog.Config{Store: &flakyStore{}, Budget: nine, PollOnly: true}
			unblock := block(&cfg)
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
			require.NoError(t, err)
			time.Sleep(2 * time.Hour)
			go wd.Fired()
			synctest.Wait()
			requireStop(t, wd, watchdog.WallClockExceeded)
			require.NoError(t, wd.Close())
			unblock()
			synctest.Wait()
		})
	})
}

// A closingHandler is a log that closes all runs whenever it is asked.
type closingHandler struct {
	slog.Handler
	mu  sync.Mutex
	all []*watchdog.Watchdog
}

func (h *closingHandler) add(wd *watchdog.Watchdog) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, wd)
}

func (h *closingHandler) Enabled(context.Context, slog.Level) bool {
	h.mu.Lock()
	all := slices.Clone(h.all)
	h.mu.Unlock()
	for _, wd := range all {
		_ = wd.Close()
	}
	return false
}

// requireAllEnd reports that runs that are due at one moment all end, whatever their logs do.
func requireAllEnd(t *testing.T, runs int, log func(i int) *slog.Logger, made ...func(*watchdog.Watchdog)) {
	t.Helper()
	store, start, all := &watchdog.Memory{}, time.Now(), make([]*watchdog.Watchdog, runs)
	for i := range all {
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: fmt.Sprint("s-", i), StartedAt: start}, watchdog.Config{
			Store: store, Logger: log(i), Budget: watchdog.Budget{WallClock: 300 * time.Millisecond, WarnAt: []float64{}},
		})
		require.NoError(t, err)
		for _, tell := range made {
			tell(wd)
		}
		all[i] = wd
	}
	giveUp := time.After(30 * time.Second)
	for i, wd := range all {
		select {
		case <-wd.Context().Done():
		case <-giveUp:
			require.Fail(t, "a run goes on", "run %d", i)
		}
		require.NoError(t, wd.Close())
	}
}

// A refusingStore refuses one kind of event, whatever it comes with.
type refusingStore struct {
	flakyStore
	kind string
	slow atomic.Int64 // how long an append takes
}

var errRefused = errors.New("column too short")

func (s *refusingStore) Append(ctx context.Context, events ...watchdog.Event) error {
	time.Sleep(time.Duration(s.slow.Load()))
	for _, e := range events {
		if e.Type == s.kind {
			return errRefused
		}
	}
	return s.flakyStore.Append(ctx, events...)
}

// TestPending protects the stop, and then the newest of the rest, from what the store does not take.
func TestPending(t *testing.T) {
	t.Run("one that is refused for good keeps no other from the store", func(t *testing.T) {
		for _, pollOnly := range []bool{false, true} {
			inFixture(t, func(b *fixture) {
				store := &refusingStore{kind: watchdog.EventRetry}
				b.cfg.Store, b.cfg.PollOnly, b.cfg.Budget.Idle, b.cfg.Budget.Ladders.Idle = store, pollOnly, 10*minute,
					[]watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveUnstuck}
				wd := b.attach()
				b.pass(10*minute + 1)
				wd.Fired()
				store.set(func(s *flakyStore) { s.fail = errDiskFull })
				b.pass(10*minute + 1)
				wd.Fired()
				b.pass(10*minute + 1)
				wd.Fired()
				requireStop(t, wd, watchdog.IdleExceeded)
				synctest.Wait()
				store.set(func(s *flakyStore) { s.fail = nil })
				wd.Fired()
				synctest.Wait()
				require.Equal(t, 1, countEvents(t, store, watchdog.EventCancel))
				require.Equal(t, 1, countEvents(t, store, watchdog.EventUnstuck))
				require.Equal(t, 1, countEvents(t, store, watchdog.EventWarning), "the decision and its directive are one")
				err := wd.Close()
				require.ErrorIs(t, err, errRefused)
				require.ErrorContains(t, err, "2 of its events are not recorded, the last a runtime.watchdog.retry")
			})
		}
	})
	t.Run("nor does any number of them keep the stop from a store that is slow", func(t *testing.T) {
		for _, pollOnly := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				store, cfg := &refusingStore{kind: watchdog.EventWait}, asked
				cfg.Store, cfg.Logger, cfg.PollOnly = store, quiet, pollOnly
				wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
				require.NoError(t, err)
				for range 20 {
					after(minute + 1)
					wd.Fired()
				}
				store.set(func(s *flakyStore) { s.fail = errDiskFull })
				_, err = wd.Cancel(noOutput)
				require.NoError(t, err)
				synctest.Wait()
				store.set(func(s *flakyStore) { s.fail = nil })
				store.slow.Store(int64(time.Second))
				began := time.Now()
				require.Error(t, wd.Close())
				require.LessOrEqual(t, time.Since(began), 2*watchdog.DefaultRecordTimeout)
				require.Equal(t, 1, countEvents(t, store, watchdog.EventCancel))
				time.Sleep(time.Minute) // what Close left behind
			})
		}
	})
	t.Run("of too many the newest are kept, the stop among them", func(t *testing.T) {
		inBubble(t, asked, func(wd *watchdog.Watchdog, store *flakyStore) {
			store.set(func(s *flakyStore) { s.fail = errDiskFull })
			after(100*minute + 100)
			wd.Progress() // not there in time
			requireStop(t, wd, watchdog.WallClockExceeded)
		})
		cfg := asked
		cfg.Budget.WallClock = 3 * time.Hour
		inBubble(t, cfg, func(wd *watchdog.Watchdog, store *flakyStore) {
			store.set(func(s *flakyStore) { s.fail = errDiskFull })
			after(100*minute + 100)
			_, err := wd.Cancel(noOutput)
			require.NoError(t, err)
			require.ErrorIs(t, wd.Close(), errDiskFull)
			store.set(func(s *flakyStore) { s.fail = nil })
			require.NoError(t, wd.Close())
			require.Equal(t, 1, countEvents(t, store, watchdog.EventCancel))
			require.Equal(t, 63, countEvents(t, store, watchdog.EventWait))
			kept := payloads(t, store, watchdog.EventWait)
			require.Contains(t, kept, `"attempt":100,`)
			require.Contains(t, kept, `"attempt":38,`)
			require.NotContains(t, kept, `"attempt":37,`)
		})
	})
	t.Run("every poll tries again, however often it failed", func(t *testing.T) {
		for _, pollOnly := range []bool{false, true} {
			cfg := laddered
			cfg.PollOnly = pollOnly
			inBubble(t, cfg, func(wd *watchdog.Watchdog, store *flakyStore) {
				store.set(func(s *flakyStore) { s.fail = errDiskFull })
				after(10*minute + 1)
				for range 5 {
					tried := store.appends
					after(2 * time.Second) // polls in between are quiet
					wd.Fired()
					synctest.Wait()
					require.Greater(t, store.appends, tried)
				}
				store.set(func(s *flakyStore) { s.fail = nil })
				after(2 * time.Second)
				wd.Fired()
				synctest.Wait()
				require.Equal(t, 1, countEvents(t, store, watchdog.EventRetry))
			})
		}
	})
	t.Run("a parent's end that could not be recorded is tried again", func(t *testing.T) {
		inFixture(t, func(b *fixture) {
			b.cfg.RecordInterrupts = true
			b.store.fail = errDiskFull
			parent, end := context.WithCancel(context.Background())
			wd, err := watchdog.New(parent, b.run, b.cfg)
			require.NoError(t, err)
			end()
			synctest.Wait()
			require.ErrorIs(t, wd.Close(), errDiskFull)
			b.store.set(func(s *flakyStore) { s.fail = nil })
			require.NoError(t, wd.Close())
			require.Len(t, b.events(watchdog.EventInterrupt), 1)
		})
	})
}
