package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
	"github.com/seed62658d38/watchdog/watchdogtest"
)

var quiet = slog.New(slog.DiscardHandler)

// arm attaches a watchdog with a budget.
func arm(b *testing.B, id string, store watchdog.EventStore, start time.Time, budget time.Duration) *watchdog.Watchdog {
	b.Helper()
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: id, StartedAt: start}, watchdog.Config{
		Store: store, Budget: watchdog.Budget{WallClock: budget, WarnAt: []float64{}}, Logger: quiet,
	})
	check(b, err)
	return wd
}

func BenchmarkFired(b *testing.B) {
	wd := arm(b, "s-1", &watchdog.Memory{}, time.Now(), time.Hour)
	defer wd.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	base := time.Now()
	for _, c := range []struct {
		name string
		ask  func()
	}{
		{"with=watchdog", func() { wd.Fired() }},
		{"with=time.Since", func() { _ = time.Since(base) }},
		{"with=ctx.Err", func() { _ = ctx.Err() }},
	} {
		b.Run(c.name, func(b *testing.B) { inParallel(b, c.ask) })
	}
}

func BenchmarkNewAndClose(b *testing.B) {
	b.Run("with=watchdog", func(b *testing.B) {
		b.ReportAllocs()
		store := &watchdog.Memory{}
		for b.Loop() {
			arm(b, "s-1", store, time.Now(), time.Hour).Close()
		}
	})
	b.Run("with=WithDeadlineCause", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, cancel := context.WithDeadlineCause(context.Background(), time.Now().Add(time.Hour), watchdog.WallClockExceeded)
			cancel()
		}
	})
}

// armed is the number of armed deadlines.
const armed = 1_000_000

// BenchmarkArmed measures the bytes and goroutines of each of a million armed deadlines. Run it once: -benchtime=1x.
func BenchmarkArmed(b *testing.B) {
	b.Run("with=watchdog", func(b *testing.B) {
		store, start := &watchdog.Memory{}, time.Now()
		ids := make([]string, armed)
		for i := range ids {
			ids[i] = strconv.Itoa(i)
		}
		hold(b, func(i int) func() {
			wd := arm(b, ids[i], store, start, 24*time.Hour)
			return func() { wd.Close() }
		})
	})
	b.Run("with=WithDeadlineCause", func(b *testing.B) {
		at := time.Now().Add(24 * time.Hour)
		hold(b, func(int) func() {
			_, cancel := context.WithDeadlineCause(context.Background(), at, watchdog.WallClockExceeded)
			return cancel
		})
	})
	b.Run("with=goroutine", func(b *testing.B) {
		hold(b, func(int) func() {
			stop := make(chan struct{})
			go func() {
				t := time.NewTimer(24 * time.Hour)
				defer t.Stop()
				select {
				case <-t.C:
				case <-stop:
				}
			}()
			return func() { close(stop) }
		})
	})
}

// hold arms all deadlines and measures. It also keeps a stop function for each, the same for all variants.
func hold(b *testing.B, arm func(i int) (stop func())) {
	b.Helper()
	for b.Loop() {
		stops := make([]func(), armed)
		bytes, goroutines := used()
		for i := range stops {
			stops[i] = arm(i)
		}
		bytesArmed, goroutinesArmed := used()
		b.ReportMetric(float64(bytesArmed-bytes)/armed, "B/run")
		b.ReportMetric(float64(goroutinesArmed-goroutines), "goroutines")
		for _, stop := range stops {
			stop()
		}
	}
	b.ReportMetric(0, "ns/op")
}

func used() (bytes int64, goroutines int) {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse), runtime.NumGoroutine()
}

// BenchmarkActivity measures a sign of life, as for each token, on one goroutine and on all cores.
func BenchmarkActivity(b *testing.B) {
	wd := armIdle(b)
	var mu sync.Mutex
	timer := time.AfterFunc(time.Hour, func() {})
	defer timer.Stop()
	base := time.Now()
	deep := deepContext(wd.Context())
	for _, c := range []struct {
		name   string
		signal func()
	}{
		{"with=watchdog", wd.Activity},
		{"with=watchdog,context", func() { watchdog.FromContext(wd.Context()).Activity() }},
		{"with=watchdog,contextFiveDeep", func() { watchdog.FromContext(deep).Activity() }},
		{"with=time.Since", func() { _ = time.Since(base) }},
		{"with=Reset", func() {
			mu.Lock()
			timer.Reset(time.Hour)
			mu.Unlock()
		}},
	} {
		b.Run(c.name, func(b *testing.B) { inParallel(b, c.signal) })
	}
}

// deepContext wraps the context in five values.
func deepContext(ctx context.Context) context.Context {
	type key int
	for i := range 5 {
		ctx = context.WithValue(ctx, key(i), i)
	}
	return ctx
}

// deadlines is the number of deadlines at one instant.
const deadlines = 10_000

// BenchmarkLateness measures how late each of 10,000 deadlines is served: a function is called, or a function that
// waits for a context sees its end. The watchdog has recorded its event by then.
func BenchmarkLateness(b *testing.B) {
	b.Run("with=AfterFunc", func(b *testing.B) {
		lateness(b, func(at time.Time, _ int, served func()) (stop func()) {
			t := time.AfterFunc(time.Until(at), served)
			return func() { t.Stop() }
		})
	})
	b.Run("with=WithDeadline", func(b *testing.B) {
		lateness(b, func(at time.Time, _ int, served func()) (stop func()) {
			ctx, cancel := context.WithDeadline(context.Background(), at)
			context.AfterFunc(ctx, served)
			return cancel
		})
	})
	b.Run("with=AfterFunc,recording", func(b *testing.B) {
		store := &watchdog.Memory{}
		lateness(b, func(at time.Time, i int, served func()) (stop func()) {
			ctx, cancel := context.WithCancelCause(context.Background())
			context.AfterFunc(ctx, served)
			t := time.AfterFunc(time.Until(at), func() {
				recordByHand(b, store, strconv.Itoa(i)+at.Format(" 05.000000"))
				cancel(watchdog.WallClockExceeded)
			})
			return func() { t.Stop() }
		})
	})
	b.Run("with=watchdog", func(b *testing.B) {
		store := &watchdog.Memory{}
		lateness(b, func(at time.Time, i int, served func()) (stop func()) {
			wd := arm(b, strconv.Itoa(i)+at.Format(" 05.000000"), store, at.Add(-time.Hour), time.Hour)
			context.AfterFunc(wd.Context(), served)
			return func() { wd.Close() }
		})
	})
}

// recordByHand is what a host would write to have its stop in the store before the context ends.
func recordByHand(b *testing.B, store watchdog.EventStore, run string) {
	b.Helper()
	payload, err := json.Marshal(map[string]any{
		"reason": "wall_clock_exceeded", "session_started_at": time.Now().UTC(), "fired_at": time.Now().UTC(),
		"elapsed_seconds": 3600, "configured_budget_seconds": 3600,
	})
	if err == nil {
		err = store.Append(context.Background(), watchdog.Event{
			ID: run, AggregateType: event.AggregateType, AggregateID: run, Type: event.Cancel,
			Payload: payload, Timestamp: time.Now(),
		})
	}
	if err != nil {
		b.Error(err)
	}
}

func lateness(b *testing.B, arm func(at time.Time, i int, served func()) (stop func())) {
	b.Helper()
	var late []time.Duration
	for b.Loop() {
		late = append(late, oneInstant(arm)...)
	}
	slices.Sort(late)
	b.ReportMetric(late[len(late)/2].Seconds()*1e3, "ms-p50")
	b.ReportMetric(late[len(late)*99/100].Seconds()*1e3, "ms-p99")
	b.ReportMetric(0, "ns/op")
}

func oneInstant(arm func(at time.Time, i int, served func()) (stop func())) []time.Duration {
	late, stops := make([]time.Duration, deadlines), make([]func(), deadlines)
	at := time.Now().Add(300 * time.Millisecond)
	var all sync.WaitGroup
	all.Add(deadlines)
	for i := range deadlines {
		stops[i] = arm(at, i, func() {
			late[i] = time.Since(at)
			all.Done()
		})
	}
	all.Wait()
	for _, stop := range stops {
		stop()
	}
	return late
}

const (
	olderWindows = 20
	lastEvents   = 5
)

// BenchmarkAttach attaches to a run whose last window has five events. What it takes must not depend on how many the
// twenty windows before it have. Each was resumed some time after it was cancelled: an attach looks back an hour before
// the window, and from there for the last end, so that it passes over the events of a window that was resumed sooner.
func BenchmarkAttach(b *testing.B) {
	inStores(b, func(b *testing.B, open func() event.TransactionalStore) {
		b.Helper()
		for _, pause := range []time.Duration{2 * time.Hour, time.Minute} {
			for _, older := range []int{10, 100_000} {
				store := open()
				run := longRun(b, store, older, pause)
				for _, from := range run.starts() {
					b.Run(fmt.Sprintf("resumed=%v/older=%d/start=%s", pause, older, from.name), func(b *testing.B) {
						for b.Loop() {
							run.attach(b, store, from.at)
						}
					})
				}
			}
		}
	})
}

// TestAttachReads counts what an attach to such a run reads.
func TestAttachReads(t *testing.T) {
	inStores(t, func(t *testing.T, open func() event.TransactionalStore) {
		t.Helper()
		store := open()
		run := longRun(t, store, olderWindows*500, 2*time.Hour)
		for _, from := range run.starts() {
			t.Run("with the "+from.name+" start", func(t *testing.T) {
				counted := &countingStore{TransactionalStore: store}
				run.attach(t, counted, from.at)
				t.Logf("%d events in %d reads", counted.events, counted.reads)
				if counted.events > from.most {
					t.Errorf("an attach read %d events in %d reads", counted.events, counted.reads)
				}
			})
		}
	})
}

// A bench is a test or a benchmark.
type bench[T any] interface {
	testing.TB
	Run(name string, f func(T)) bool
}

// inStores calls use with a function that opens empty stores, for each database.
func inStores[T bench[T]](t T, use func(t T, open func() event.TransactionalStore)) {
	t.Helper()
	t.Run("in=SQLite", func(t T) {
		use(t, func() event.TransactionalStore {
			store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "events.db"))
			return opened(t, store, err)
		})
	})
	t.Run("in=PostgreSQL", func(t T) {
		server := pgtest.Start(t, pgtest.Options{})
		use(t, func() event.TransactionalStore {
			store, err := postgres.Open(t.Context(), server.DSN(server.Database(t)), postgres.Config{})
			return opened(t, store, err)
		})
	})
}

// opened closes the store when the test ends.
func opened(tb testing.TB, store interface {
	event.TransactionalStore
	Close() error
}, err error,
) event.TransactionalStore {
	tb.Helper()
	check(tb, err)
	tb.Cleanup(func() { check(tb, store.Close()) })
	return store
}

// A countingStore counts what is read. It hides what else the store inside can do.
type countingStore struct {
	event.TransactionalStore
	reads, events int
}

func (s *countingStore) Read(ctx context.Context, kind, id string) ([]watchdog.Event, error) {
	return s.count(s.TransactionalStore.Read(ctx, kind, id))
}

func (s *countingStore) Select(ctx context.Context, selection event.Selection) ([]watchdog.Event, error) {
	return s.count(s.TransactionalStore.Select(ctx, selection))
}

func (s *countingStore) count(events []watchdog.Event, err error) ([]watchdog.Event, error) {
	s.reads, s.events = s.reads+1, s.events+len(events)
	return events, err
}

// A history is a run that was cancelled and resumed again and again.
type history struct {
	first, last time.Time
	clock       *watchdogtest.MockClock
}

// A start is one that a host may pass.
type start struct {
	name string
	at   time.Time
	most int // how many events an attach may read
}

func (h *history) starts() []start {
	return []start{{"persisted", h.last, 3 * lastEvents}, {"first", h.first, 60}}
}

// longRun writes a run whose windows last an hour and lie that far apart.
func longRun(tb testing.TB, store watchdog.EventStore, older int, pause time.Duration) *history {
	tb.Helper()
	mock := watchdogtest.NewMockClock()
	mock.Set(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	h := &history{first: mock.Now(), clock: mock}
	for n := range olderWindows {
		wd := h.open(tb, store)
		fill(tb, store, wd, older*(n+1)/olderWindows-older*n/olderWindows)
		mock.Add(time.Hour)
		_, err := wd.Cancel(watchdog.Cancellation{Reason: "user_asked"})
		check(tb, err)
		check(tb, wd.Close())
		mock.Add(pause)
	}
	wd := h.open(tb, store)
	h.last = wd.StartedAt()
	fill(tb, store, wd, lastEvents)
	check(tb, wd.Close())
	mock.Add(time.Minute)
	return h
}

func (h *history) open(tb testing.TB, store watchdog.EventStore) *watchdog.Watchdog {
	tb.Helper()
	wd, err := watchdog.Resume(tb.Context(), watchdog.Run{ID: "run", StartedAt: h.first}, h.config(store))
	check(tb, err)
	return wd
}

func (h *history) config(store watchdog.EventStore) watchdog.Config {
	return watchdog.Config{
		Store: store, Clock: h.clock, Logger: quiet, PollOnly: true, Budget: watchdog.Budget{WallClock: 1000 * time.Hour},
	}
}

// fill appends warnings of the window.
func fill(tb testing.TB, store watchdog.EventStore, wd *watchdog.Watchdog, n int) {
	tb.Helper()
	events := make([]watchdog.Event, n)
	for i := range events {
		at := wd.StartedAt().Add(time.Duration(i) * time.Millisecond)
		payload, err := json.Marshal(map[string]any{"session_started_at": wd.StartedAt(), "fraction": float64(i) / 1e6})
		check(tb, err)
		events[i] = watchdog.Event{
			ID: fmt.Sprintf("%d-%d", wd.StartedAt().Unix(), i), AggregateType: event.AggregateType, AggregateID: "run",
			Type: event.Warning, Timestamp: at, Payload: payload,
		}
	}
	check(tb, store.Append(tb.Context(), events...))
}

// attach attaches to the run as a host does that passes this start.
func (h *history) attach(tb testing.TB, store watchdog.EventStore, startedAt time.Time) {
	tb.Helper()
	wd, err := watchdog.New(tb.Context(), watchdog.Run{ID: "run", StartedAt: startedAt}, h.config(store))
	check(tb, err)
	if !wd.StartedAt().Equal(h.last) {
		tb.Fatal("attached to the window of", wd.StartedAt())
	}
	check(tb, wd.Close())
}

func check(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
