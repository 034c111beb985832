package bound_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/locked"
)

// noting is work that notes and then takes a time, whatever happens to its context.
func noting(what string, d time.Duration) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		bound.Note(ctx, what)
		time.Sleep(d)
		return "done", nil
	}
}

func TestNote(t *testing.T) {
	bubble(t, "of work outside of a run is in the outcome, the cause, the error and the list of abandoned calls", func(t *testing.T) {
		call, calls, _ := keyed()
		out := bound.Do(t.Context(), call, func(ctx context.Context) (string, error) {
			bound.Note(ctx, "read_file")
			bound.Note(ctx, "write_file")
			<-ctx.Done()
			require.Equal(t, "write_file", overrunOf(t, context.Cause(ctx)).Note)
			time.Sleep(time.Hour)
			return "", nil
		})
		require.Equal(t, "write_file", out.Note)
		require.Equal(t, "write_file", overrunOf(t, out.Err).Note)
		require.ErrorContains(t, out.Err, "last noted: write_file")
		require.Equal(t, "write_file", calls.Abandoned()[0].Note)
		time.Sleep(time.Hour)
	})
	t.Run("is in the outcome of a call in time, too, through contexts made from the call's", func(t *testing.T) {
		out := bound.Do(t.Context(), tick, func(ctx context.Context) (string, error) {
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			return noting("grep", 0)(ctx)
		})
		require.NoError(t, out.Err)
		require.Equal(t, "grep", out.Note)
	})
	t.Run("is kept as a run keeps it", func(t *testing.T) {
		out := bound.Do(t.Context(), tick, noting("a\nb\xff"+strings.Repeat("x", 300), 0))
		require.Equal(t, "a b\uFFFD"+strings.Repeat("x", 196), out.Note)
	})
	t.Run("is on record for the calls around it, and not for the next call or one beside it", func(t *testing.T) {
		outer := bound.Do(t.Context(), tick, func(ctx context.Context) (string, error) {
			bound.Note(ctx, "plan")
			inner := bound.Do(ctx, tick, noting("grep", 0))
			require.Equal(t, "grep", inner.Note)
			require.Empty(t, bound.Do(ctx, tick, ignoring(0, nil)).Note)
			return "", nil
		})
		require.Equal(t, "grep", outer.Note)
	})
	bubble(t, "of an abandoned call is dropped, as is that of a call in it", func(t *testing.T) {
		wd := watched(t, watchdog.Config{Store: &watchdog.Memory{}})
		outer := bound.Do(wd.Context(), bound.Call{}, func(ctx context.Context) (string, error) {
			bound.Note(ctx, "plan")
			bound.Do(ctx, tick, func(ctx context.Context) (string, error) {
				time.Sleep(2 * time.Minute)
				bound.Note(ctx, "too late")
				bound.Do(context.WithoutCancel(ctx), tick, noting("later still", 0))
				return "", nil
			})
			time.Sleep(5 * time.Minute)
			return "", nil
		})
		require.Equal(t, "plan", outer.Note)
		require.Equal(t, "plan", wd.LastNote())
	})
	bubble(t, "in a run is the run's, too; the call's own note comes before the run's", func(t *testing.T) {
		wd := watched(t, watchdog.Config{Store: &watchdog.Memory{}})
		wd.Note("plan")
		require.Equal(t, "plan", bound.Do(wd.Context(), tick, ignoring(0, nil)).Note)
		out := bound.Do(wd.Context(), tick, func(ctx context.Context) (string, error) {
			bound.Note(ctx, "grep")
			require.Equal(t, "grep", wd.LastNote())
			wd.Note("something beside it")
			return "", nil
		})
		require.Equal(t, "grep", out.Note)
		bound.Note(wd.Context(), "between calls")
		require.Equal(t, "between calls", wd.LastNote())
	})
	t.Run("is nobody's where there is neither call nor run", func(t *testing.T) {
		require.NotPanics(t, func() { bound.Note(t.Context(), "read_file") })
	})
	bubble(t, "can be made by many goroutines at once, also when the call is abandoned", func(t *testing.T) {
		out := bound.Do(t.Context(), tick, func(ctx context.Context) (string, error) {
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for range 100 {
						bound.Note(ctx, "grep")
						time.Sleep(time.Second)
					}
				})
			}
			all.Wait()
			return "", nil
		})
		require.True(t, out.Abandoned)
		require.Equal(t, "grep", out.Note)
		time.Sleep(time.Hour)
	})
	t.Run("costs few allocations", func(t *testing.T) {
		bound.Do(t.Context(), tick, func(ctx context.Context) (string, error) {
			require.LessOrEqual(t, testing.AllocsPerRun(100, func() { bound.Note(ctx, "read_file") }), 2.0)
			return "", nil
		})
	})
}

// watched attaches a run that began now and that the test's end closes.
func watched(t *testing.T, cfg watchdog.Config) *watchdog.Watchdog {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = quiet
	}
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = wd.Close() })
	return wd
}

func layer(t *testing.T, wd *watchdog.Watchdog, name string, budget watchdog.Budget) *watchdog.Watchdog {
	t.Helper()
	inner, err := wd.Layer(name, budget)
	require.NoError(t, err)
	return inner
}

// errCanary is what calls return: it must be in no event.
var errCanary = errors.New("canary-e0c4")

// A recorded run has the store with the events of its calls.
type recorded struct {
	*watchdog.Watchdog
	store *slowStore
}

// runRecorded is onRecord for one case of a test.
func runRecorded(t *testing.T, name string, cfg watchdog.Config, test func(t *testing.T, wd *recorded)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { onRecord(t, cfg, test) })
}

// onRecord runs a test in a bubble, with a run, and its store.
func onRecord(t *testing.T, cfg watchdog.Config, test func(t *testing.T, wd *recorded)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &slowStore{}
		if cfg.Store = store; cfg.Budget.WarnAt == nil {
			cfg.Budget.WarnAt = []float64{}
		}
		test(t, &recorded{watched(t, cfg), store})
	})
}

// overrun is the one that the run has on record.
func (r *recorded) overrun(t *testing.T) map[string]any {
	t.Helper()
	synctest.Wait()
	return onlyOverrun(t, r.store, "s-1")
}

func TestOnRecord(t *testing.T) {
	plain, observed := watchdog.Config{}, watchdog.Config{ObserveOnly: true}
	hourly := watchdog.Config{Budget: watchdog.Budget{WallClock: time.Hour, Idle: 20 * time.Second}}
	endless := watchdog.Config{Budget: watchdog.Budget{WallClock: watchdog.NoLimit}}
	reserved := watchdog.Config{Budget: watchdog.Budget{WallClock: time.Minute, Reserve: 20 * time.Second}}
	runRecorded(t, "is a call that overran, once, with what it did last", plain, func(t *testing.T, wd *recorded) {
		call, _, _ := keyed()
		bound.Do(wd.Context(), call, noting("grep", 63*time.Second))
		on := wd.overrun(t)
		require.Equal(t, map[string]any{
			"key": "tick", "layer": "soft", "limit_seconds": 60.0, "elapsed_seconds": 63.0, "note": "grep",
			"session_started_at": on["session_started_at"], "overran_at": on["overran_at"],
		}, on)
		require.Equal(t, wd.StartedAt().Add(63*time.Second), eventsOf(t, wd.store, "s-1", event.Overrun)[0].Timestamp)
	})
	runRecorded(t, "is one that was abandoned, before its release", plain, func(t *testing.T, wd *recorded) {
		call, calls, _ := keyed()
		call.Release = func() {
			synctest.Wait()
			require.Len(t, overrunsOf(t, wd.store, "s-1"), 1)
		}
		bound.Do(wd.Context(), call, noting("grep", time.Hour))
		require.Equal(t, uint64(1), calls.Counts().Abandoned)
		time.Sleep(2 * time.Hour)
		on := onlyOverrun(t, wd.store, "s-1")
		require.Equal(t, "hard", on["layer"])
		require.Equal(t, true, on["abandoned"])
		require.InDelta(t, 70, on["elapsed_seconds"], 1e-6)
		require.Equal(t, "grep", on["note"])
	})
	runRecorded(t, "is not one in time, refused or cancelled from outside", plain, func(t *testing.T, wd *recorded) {
		call, _, _ := keyed()
		bound.Do(wd.Context(), call, ignoring(time.Minute, errTick))
		bound.Do(wd.Context(), call, func(ctx context.Context) (string, error) {
			require.ErrorIs(t, bound.Do(ctx, call, obeying).Err, bound.ErrKeyInUse)
			return "", nil
		})
		bound.Do(wd.Context(), bound.Call{Limit: -1}, obeying)
		ctx, cut := context.WithTimeout(wd.Context(), time.Second)
		defer cut()
		require.Equal(t, bound.LayerOutside, bound.Do(ctx, call, obeying).Layer)
		require.Equal(t, bound.LayerOutside, bound.Do(ctx, call, obeying).Layer)
		require.NoError(t, wd.Close())
		require.Empty(t, overrunsOf(t, wd.store, "s-1"))
	})
	runRecorded(t, "is one that the stop cut short and that was abandoned", hourly, func(t *testing.T, wd *recorded) {
		out := bound.Do(wd.Context(), bound.Call{Limit: watchdog.NoLimit, Grace: time.Second, Logger: quiet},
			ignoring(time.Hour, nil))
		require.True(t, out.Abandoned)
		require.NoError(t, wd.Close())
		on := onlyOverrun(t, wd.store, "s-1")
		require.Equal(t, "outside", on["layer"])
		require.Equal(t, true, on["abandoned"])
		require.InDelta(t, 3600, on["limit_seconds"], 1e-6)
		require.Len(t, eventsOf(t, wd.store, "s-1", event.Cancel), 1)
		time.Sleep(time.Hour)
	})
	runRecorded(t, "has a limit of 0 where there was none", endless, func(t *testing.T, wd *recorded) {
		ctx, cut := context.WithTimeout(wd.Context(), time.Second)
		defer cut()
		bound.Do(ctx, bound.Call{Limit: watchdog.NoLimit, Grace: time.Second, Logger: quiet}, ignoring(time.Hour, nil))
		synctest.Wait()
		require.Zero(t, onlyOverrun(t, wd.store, "s-1")["limit_seconds"])
		time.Sleep(time.Hour)
	})
	runRecorded(t, "names the run whose remaining time was the limit", reserved, func(t *testing.T, wd *recorded) {
		build := layer(t, wd.Watchdog, "build", watchdog.Budget{WallClock: 30 * time.Second})
		bound.Do(wd.Context(), tick, obeying)
		bound.Do(build.Context(), tick, obeying)
		on := wd.overrun(t)
		require.Equal(t, "s-1", on["limited_by"])
		require.InDelta(t, 40, on["limit_seconds"], 1e-6)
	})
	runRecorded(t, "of a layer names the run around it", plain, func(t *testing.T, wd *recorded) {
		build := layer(t, wd.Watchdog, "build", watchdog.Budget{})
		bound.Do(build.Context(), tick, obeying)
		synctest.Wait()
		require.Empty(t, overrunsOf(t, wd.store, "s-1"))
		require.Equal(t, "s-1", onlyOverrun(t, wd.store, "s-1/build")["parent"])
	})
	runRecorded(t, "is one in a run that is only observed", observed, func(t *testing.T, wd *recorded) {
		bound.Do(wd.Context(), tick, obeying)
		synctest.Wait()
		require.Len(t, overrunsOf(t, wd.store, "s-1"), 1)
	})
	runRecorded(t, "is none after the run's or its parent's end, or without", plain, func(t *testing.T, wd *recorded) {
		parent, cut := context.WithCancel(t.Context())
		orphan, err := watchdog.New(parent, watchdog.Run{ID: "s-2", StartedAt: time.Now()},
			watchdog.Config{Store: wd.store, PollOnly: true, Logger: quiet})
		require.NoError(t, err)
		cut()
		require.NoError(t, wd.Close())
		before := wd.store.appends
		bound.Do(context.WithoutCancel(wd.Context()), tick, obeying)
		bound.Do(context.WithoutCancel(orphan.Context()), tick, obeying)
		bound.Do((*watchdog.Watchdog)(nil).Context(), tick, obeying)
		require.NoError(t, orphan.Close())
		require.NoError(t, wd.Close())
		require.Equal(t, before, wd.store.appends)
	})
	runRecorded(t, "is one that was begun before the run was closed", plain, func(t *testing.T, wd *recorded) {
		time.AfterFunc(time.Second, func() { _ = wd.Close() })
		require.Equal(t, bound.LayerOutside, bound.Do(wd.Context(), tick, ignoring(time.Hour, nil)).Layer)
		synctest.Wait()
		require.Len(t, overrunsOf(t, wd.store, "s-1"), 1)
		time.Sleep(time.Hour)
	})
	bubble(t, "is in a memory when Do returns", func(t *testing.T) {
		store := &watchdog.Memory{}
		bound.Do(watched(t, watchdog.Config{Store: store, PollOnly: true}).Context(), tick, obeying)
		require.Len(t, overrunsOf(t, store, "s-1"), 1)
	})
	runRecorded(t, "has a key and a note of 200 characters at most, on one line", plain, func(t *testing.T, wd *recorded) {
		call, _, _ := keyed()
		call.Key = "a\n" + strings.Repeat("k", 1000)
		bound.Do(wd.Context(), call, noting("b\x00"+strings.Repeat("n", 1000), 2*time.Minute))
		on := wd.overrun(t)
		require.Equal(t, "a "+strings.Repeat("k", 198), on["key"])
		require.Equal(t, "b "+strings.Repeat("n", 198), on["note"])
		time.Sleep(time.Hour)
	})
}

func TestSecretsOfCalls(t *testing.T) {
	t.Run("no event, log or error of the run has what a call returned or panicked with", func(t *testing.T) {
		log := &locked.Buffer{}
		onRecord(t, watchdog.Config{}, func(t *testing.T, r *recorded) {
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-2", StartedAt: time.Now()},
				watchdog.Config{Store: r.store, Logger: slog.New(slog.NewTextHandler(log, nil))})
			require.NoError(t, err)
			r.store.set(errDiskFull, nil)
			require.Panics(t, func() {
				bound.Do(wd.Context(), tick, panicking(65*time.Second))
			})
			bound.Do(wd.Context(), tick, ignoring(65*time.Second, errCanary))
			ctx, cut := context.WithCancelCause(wd.Context())
			time.AfterFunc(time.Second, func() { cut(errCanary) })
			bound.Do(ctx, tick, ignoring(time.Hour, errCanary))
			time.Sleep(time.Hour)
			err = wd.Close()
			require.ErrorIs(t, err, errDiskFull)
			r.store.set(nil, nil)
			require.NoError(t, wd.Close())
			events := eventsOf(t, r.store, "s-2", event.Overrun)
			require.Len(t, events, 3)
			written, err2 := json.Marshal(events)
			require.NoError(t, err2)
			for _, text := range []string{string(written), log.String(), err.Error()} {
				require.NotContains(t, text, "canary")
			}
			require.Contains(t, log.String(), "watchdog could not record that a call overran")
		})
	})
}

func TestStoreOfOverruns(t *testing.T) {
	plain := watchdog.Config{}
	runRecorded(t, "hangs: only Close waits for it, and not for long", plain, func(t *testing.T, wd *recorded) {
		hang := make(chan struct{})
		wd.store.set(nil, hang)
		start := time.Now()
		bound.Do(wd.Context(), tick, obeying)
		require.Equal(t, time.Minute+1, time.Since(start))
		time.Sleep(3 * time.Second)
		bound.Do(wd.Context(), bound.Call{Limit: 1}, obeying)
		closing := time.Now()
		err := wd.Close()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "2 of its events are not recorded, the last a runtime.watchdog.overrun")
		require.LessOrEqual(t, time.Since(closing), 2*watchdog.DefaultRecordTimeout)
		close(hang)
		require.NoError(t, wd.Close())
		require.Len(t, overrunsOf(t, wd.store, "s-1"), 2)
	})
	limited := watchdog.Config{Budget: watchdog.Budget{Idle: 20 * time.Minute}}
	runRecorded(t, "fails for long: the newest 1,024 are kept, and the stop", limited, func(t *testing.T, wd *recorded) {
		wd.store.set(errDiskFull, nil)
		for range 1000 {
			bound.Do(wd.Context(), bound.Call{Limit: time.Second}, obeying)
		}
		var all sync.WaitGroup
		for i := range 50 {
			all.Go(func() {
				call := bound.Call{Limit: watchdog.NoLimit, Grace: time.Duration(i+1) * time.Second, Logger: quiet}
				bound.Do(wd.Context(), call, ignoring(2*time.Hour, nil))
			})
		}
		all.Wait()
		require.ErrorIs(t, wd.Close(), errDiskFull)
		wd.store.set(nil, nil)
		require.NoError(t, wd.Close())
		require.Len(t, eventsOf(t, wd.store, "s-1", event.Cancel), 1)
		kept := overrunsOf(t, wd.store, "s-1")
		require.Len(t, kept, 1024)
		require.Equal(t, "soft", kept[973]["layer"])
		require.Equal(t, "outside", kept[974]["layer"])
		time.Sleep(2 * time.Hour)
	})
	t.Run("is asked by the next poll in poll-only mode, and by no goroutine", func(t *testing.T) {
		log := &locked.Buffer{}
		onRecord(t, watchdog.Config{}, func(t *testing.T, r *recorded) {
			wd, err := watchdog.New(t.Context(), watchdog.Run{ID: "s-2", StartedAt: time.Now()},
				watchdog.Config{Store: r.store, PollOnly: true, Logger: logTo(log)})
			require.NoError(t, err)
			_, _ = wd.Fired() // polls are quiet for a second now
			for range 1025 {
				bound.Do(wd.Context(), bound.Call{Limit: time.Millisecond}, obeying)
			}
			synctest.Wait()
			require.Zero(t, r.store.appends)
			require.Contains(t, log.String(), "too many overruns of calls wait")
			_, _ = wd.Fired()
			require.Equal(t, 1, r.store.appends)
			require.Len(t, overrunsOf(t, r.store, "s-2"), 1024)
			bound.Do(wd.Context(), bound.Call{Limit: time.Millisecond}, obeying)
			require.NoError(t, wd.Close())
			require.Len(t, overrunsOf(t, r.store, "s-2"), 1025)
		})
	})
}

var errDiskFull = errors.New("disk full")

// slowStore is a Memory that can be told to fail or to hang. It is not a *Memory to the watchdog, so that it is waited
// for.
type slowStore struct {
	Memory watchdog.Memory

	mu      sync.Mutex
	fail    error         // what Append returns
	hang    chan struct{} // what Append waits for
	appends int           // how often Append was called
}

func (s *slowStore) set(fail error, hang chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail, s.hang = fail, hang
}

func (s *slowStore) Append(ctx context.Context, events ...watchdog.Event) error {
	s.mu.Lock()
	fail, hang := s.fail, s.hang
	s.appends++
	s.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if fail != nil {
		return fail
	}
	return s.Memory.Append(ctx, events...)
}

func (s *slowStore) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	return s.Memory.Read(ctx, aggregateType, aggregateID)
}

// eventsOf returns the events of one kind of a run.
func eventsOf(t *testing.T, store watchdog.EventStore, runID, kind string) (found []watchdog.Event) {
	t.Helper()
	all, err := store.Read(context.Background(), event.AggregateType, runID)
	require.NoError(t, err)
	for _, e := range all {
		if e.Type == kind {
			found = append(found, e)
		}
	}
	return found
}

// overrunsOf returns what a run has on record of its calls.
func overrunsOf(t *testing.T, store watchdog.EventStore, runID string) (found []map[string]any) {
	t.Helper()
	for _, e := range eventsOf(t, store, runID, event.Overrun) {
		var payload map[string]any
		require.NoError(t, json.Unmarshal(e.Payload, &payload))
		found = append(found, payload)
	}
	return found
}

// onlyOverrun returns the one overrun that a run has on record.
func onlyOverrun(t *testing.T, store watchdog.EventStore, runID string) map[string]any {
	t.Helper()
	all := overrunsOf(t, store, runID)
	require.Len(t, all, 1)
	return all[0]
}
