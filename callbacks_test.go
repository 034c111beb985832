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
	"github.com/seed62658d38/watchdog/event"
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

// TestLateNew protects a host with many runs that are late from waiting for a log that hangs in each New.
func TestLateNew(t *testing.T) {
	runSynced(t, "it has the stop, and does not wait for the log", func(t *testing.T) {
		blocking, began := newBlockingLog(), time.Now()
		defer close(blocking.block)
		for i := range 20 {
			wd, err := watchdog.New(context.Background(), watchdog.Run{
				ID: fmt.Sprint("s-", i), StartedAt: began.Add(-5 * time.Hour),
			}, watchdog.Config{Store: &flakyStore{}, Logger: slog.New(blocking)})
			require.NoError(t, err)
			require.Equal(t, watchdog.WallClockExceeded, wd.Stop().Code)
			require.Zero(t, time.Since(began))
			defer wd.Close()
		}
	})
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
			require.Equal(t, 1, countEvents(t, store, event.Interrupt))
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
			OnWarning: func(watchdog.Warning) { panic([]string{canaryPanic}) },
		}, func(wd *watchdog.Watchdog) {
			wd.Subscribe(func(watchdog.Directive) { panic(canaryPanic) })
			time.Sleep(50 * minute)
			wd.Fired()
		})
		for _, want := range []string{
			"in=OnWarning panic_type=[]string",
			"in=Subscribe panic_type=string", "callbacks_test.go",
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

// asked is a run that is asked to wait each minute in which it is silent.
var asked = watchdog.Config{Budget: watchdog.Budget{
	WallClock: time.Hour, WarnAt: []float64{}, Idle: minute,
	Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveWait, 200)},
}}

// A reader keeps what it is told, in order.
type reader struct {
	mu   sync.Mutex
	told []string
}

func (r *reader) tell(d watchdog.Directive) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told = append(r.told, fmt.Sprint(d.Kind, " ", d.Rung))
}

func (r *reader) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told)
}

// polled is what there is to poll.
func polled(wd *watchdog.Watchdog) (all []string) {
	var r reader
	for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
		r.tell(d)
	}
	return r.all()
}

// TestCallbacksOfOneLook protects a host that calls the watchdog from its callbacks: without a timer they run on the
// goroutine that also has to end the run.
func TestCallbacksOfOneLook(t *testing.T) {
	calls := map[string]func(*watchdog.Watchdog){
		"Fired":     func(wd *watchdog.Watchdog) { wd.Fired() },
		"Poll":      func(wd *watchdog.Watchdog) { wd.Poll() },
		"Stop":      func(wd *watchdog.Watchdog) { wd.Stop() },
		"Close":     func(wd *watchdog.Watchdog) { wd.Close() },
		"Cancel":    func(wd *watchdog.Watchdog) { wd.Cancel(noOutput) },
		"Interrupt": func(wd *watchdog.Watchdog) { wd.Interrupt("SIGINT") },
		"Extend":    func(wd *watchdog.Watchdog) { wd.Extend(time.Hour) },
		"Hold":      func(wd *watchdog.Watchdog) { wd.Hold(context.Background(), "tool", watchdog.HoldLimit{}) },
		"Sync":      func(wd *watchdog.Watchdog) { wd.Sync(context.Background()) },
		"Progress":  (*watchdog.Watchdog).Progress,
	}
	for name, call := range calls {
		runSynced(t, "a look finds a warning, a directive and a stop, and each calls "+name, func(t *testing.T) {
			var wd *watchdog.Watchdog
			var warnings int
			store, cfg := &flakyStore{}, asked
			cfg.Store, cfg.PollOnly = store, true
			cfg.Budget.WallClock, cfg.Budget.WarnAt = 90*time.Second, []float64{0.5}
			cfg.OnWarning = func(watchdog.Warning) { warnings++; call(wd) }
			wd = guard(t, cfg)
			var told reader
			wd.Subscribe(func(d watchdog.Directive) { told.tell(d); call(wd) })
			after(80 * time.Second)
			stop := cancelRun(t, wd, noOutput)
			require.Equal(t, noOutput.Reason, stop.Code)
			require.Equal(t, []string{"wait 1", "cancel 1"}, told.all())
			require.Equal(t, 1, countEvents(t, store, event.Cancel))
			require.Equal(t, 1, warnings)
			require.NoError(t, wd.Close())
		})
	}
}

// TestCancelIsLast protects every reader from a directive after the run's end, and from one that is left out.
func TestCancelIsLast(t *testing.T) {
	want := []string{"wait 1", "wait 2", "wait 3", "cancel 1"}
	for name, set := range map[string]func(*flakyStore){
		"the store answers":                 func(*flakyStore) {},
		"the store fails":                   func(s *flakyStore) { s.fail = errDiskFull },
		"the store hangs":                   func(s *flakyStore) { s.hang = make(chan struct{}) },
		"the store hangs and heeds nothing": func(s *flakyStore) { s.hang, s.ignoresContext = make(chan struct{}), true },
	} {
		for _, pollOnly := range []bool{false, true} {
			if name == "the store hangs and heeds nothing" && pollOnly {
				continue // which holds its caller, as documented
			}
			t.Run(fmt.Sprintf("%s, poll-only %v", name, pollOnly), func(t *testing.T) {
				for range 200 {
					cfg := asked
					cfg.PollOnly, cfg.RecordTimeout = pollOnly, 10*minute
					inBubble(t, cfg, func(t *testing.T, wd *watchdog.Watchdog, store *flakyStore) {
						store.set(set)
						var readers [3]reader
						for i := range readers {
							wd.Subscribe(readers[i].tell)
						}
						for range 3 {
							time.Sleep(minute + 1) // and no Wait: Cancel comes while the others are found and recorded
						}
						began := time.Now()
						stop := cancelRun(t, wd, noOutput)
						require.NotNil(t, stop)
						require.LessOrEqual(t, time.Since(began), cfg.RecordTimeout)
						synctest.Wait()
						for i := range readers {
							requireAsked(t, want, readers[i].all(), pollOnly)
						}
						requireAsked(t, want, polled(wd), pollOnly)
						store.set(func(s *flakyStore) {
							if s.fail = nil; s.hang != nil {
								close(s.hang)
								s.hang = nil
							}
						})
						require.NoError(t, wd.Close())
						synctest.Wait()
						for i := range readers {
							requireAsked(t, want, readers[i].all(), pollOnly)
						}
						require.Empty(t, polled(wd), "after the cancel")
						require.Equal(t, 1, countEvents(t, store, event.Cancel))
					})
				}
			})
		}
	}
}

// requireAsked reports that a reader got what is wanted; without a timer one look finds the silence of three minutes.
func requireAsked(t *testing.T, want, got []string, pollOnly bool) {
	t.Helper()
	if pollOnly {
		want = []string{want[0], want[len(want)-1]}
	}
	require.Equal(t, want, got)
}
