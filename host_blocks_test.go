package watchdog_test

import (
	"bytes"
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
				inBubble(t, cfg, func(t *testing.T, wd *watchdog.Watchdog, _ *flakyStore) {
					end(wd)
					require.EqualValues(t, 1, told.Load(), name)
				})
			}
		}
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

// TestLogOfCaller protects who attaches to a run, makes a layer or closes it from a log that blocks or panics.
func TestLogOfCaller(t *testing.T) {
	const timeout = time.Second
	blocking := newBlockingLog()
	for name, log := range map[string]slog.Handler{
		"blocks": blocking, "panics": panickingHandler{slog.DiscardHandler},
	} {
		runSynced(t, "that "+name, func(t *testing.T) {
			blocking.block = make(chan struct{})
			keeper := &fakeKeeper{
				attempt: watchdog.Attempt{Number: 2, Lost: true}, end: func(context.Context) { panic("keeper") },
			}
			store, began := &flakyStore{fail: errDiskFull}, time.Now()
			took := func(call func() error, limit time.Duration) {
				began := time.Now()
				require.NoError(t, call())
				require.LessOrEqual(t, time.Since(began), limit)
			}
			var wd *watchdog.Watchdog
			took(func() (err error) { // finds that an attempt was lost, cannot record it
				wd, err = watchdog.New(t.Context(), watchdog.Run{ID: "s-1", StartedAt: began}, watchdog.Config{
					Store: store, Keeper: keeper, RecordTimeout: timeout, Logger: slog.New(log),
					Budget: watchdog.Budget{WallClock: watchdog.NoLimit, Hold: watchdog.NoLimit},
				})
				return err
			}, 2*timeout)
			took(func() error {
				_, err := wd.Layer("step", watchdog.Budget{WallClock: watchdog.NoLimit, Hold: watchdog.NoLimit})
				return err
			}, timeout)
			store.set(func(s *flakyStore) { s.fail = nil })
			took(wd.Close, 2*timeout)
			require.Equal(t, 1, countEvents(t, store, watchdog.EventInterrupt))
			if log == slog.Handler(blocking) {
				require.EqualValues(t, 2, blocking.blocked.Load(), "it was told of all")
			}
			close(blocking.block)
		})
	}
	t.Run("that panics, where nothing is guarded", func(t *testing.T) {
		wd := guard(t, watchdog.Config{
			Store: &flakyStore{}, Disabled: true, Logger: slog.New(panickingHandler{slog.DiscardHandler}),
		})
		require.NoError(t, wd.Close())
	})
}

// canaryPanic is what the host panics with: it must be in no log and no error.
const canaryPanic = "canary-51c0"

func TestPanicValue(t *testing.T) {
	logged := func(t *testing.T, cfg watchdog.Config, test func(wd *watchdog.Watchdog)) string {
		var log bytes.Buffer
		synctest.Test(t, func(t *testing.T) {
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			wd := guard(t, cfg)
			test(wd)
			synctest.Wait()
		})
		require.NotContains(t, log.String(), canaryPanic)
		return log.String()
	}
	budget := watchdog.Budget{WallClock: time.Hour, Idle: minute, Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveWait, 1)}}
	t.Run("of a callback is not logged; its type is, and where it happened", func(t *testing.T) {
		log := logged(t, watchdog.Config{
			Store: &watchdog.Memory{}, Budget: budget, PollOnly: true,
			OnSignal:  func(watchdog.Signal) { panic(errors.New(canaryPanic)) },
			OnWarning: func(watchdog.Warning) { panic([]string{canaryPanic}) },
		}, func(wd *watchdog.Watchdog) {
			wd.Subscribe(func(watchdog.Directive) { panic(canaryPanic) })
			time.Sleep(50 * minute)
			wd.Fired()
		})
		for _, want := range []string{
			"in=OnSignal panic_type=*errors.errorString", "in=OnWarning panic_type=[]string",
			"in=Subscribe panic_type=string", "host_blocks_test.go",
		} {
			require.Contains(t, log, want)
		}
	})
	t.Run("of a store is in no error and no log; its type is", func(t *testing.T) {
		for _, pollOnly := range []bool{false, true} {
			store := &hookedStore{EventStore: &watchdog.Memory{}, append: func([]watchdog.Event) error {
				panic(errors.New(canaryPanic))
			}}
			log := logged(t, watchdog.Config{Store: store, Budget: budget, PollOnly: pollOnly},
				func(wd *watchdog.Watchdog) {
					for _, err := range []error{wd.Extend(time.Hour), wd.Interrupt("SIGINT")} {
						require.ErrorContains(t, err, "event store panicked with a *errors.errorString")
						require.NotContains(t, err.Error(), canaryPanic)
					}
				})
			require.NotContains(t, log, canaryPanic)
		}
	})
}

// panickingHandler is a log that fails.
type panickingHandler struct{ slog.Handler }

func (panickingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (panickingHandler) Handle(context.Context, slog.Record) error { panic("log") }
