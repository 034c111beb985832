package bench_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

const (
	olderWindows = 20
	lastEvents   = 5
)

// BenchmarkAttach attaches to a run whose last window has five events. What it takes must not depend on how many the
// twenty windows before it have. Each was resumed some time after it was cancelled: an attach looks back an hour before
// the window, and from there for the last end, so that it passes over the events of a window that was resumed sooner.
func BenchmarkAttach(b *testing.B) {
	inStores(b, func(b *testing.B, open func() watchdog.TransactionalStore) {
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
	inStores(t, func(t *testing.T, open func() watchdog.TransactionalStore) {
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
func inStores[T bench[T]](t T, use func(t T, open func() watchdog.TransactionalStore)) {
	t.Helper()
	t.Run("in=SQLite", func(t T) {
		use(t, func() watchdog.TransactionalStore {
			store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "events.db"))
			return opened(t, store, err)
		})
	})
	t.Run("in=PostgreSQL", func(t T) {
		server := pgtest.Start(t, pgtest.Options{})
		use(t, func() watchdog.TransactionalStore {
			store, err := postgres.Open(t.Context(), server.DSN(server.Database(t)), postgres.Config{})
			return opened(t, store, err)
		})
	})
}

// opened closes the store when the test ends.
func opened(tb testing.TB, store interface {
	watchdog.TransactionalStore
	Close() error
}, err error,
) watchdog.TransactionalStore {
	tb.Helper()
	check(tb, err)
	tb.Cleanup(func() { check(tb, store.Close()) })
	return store
}

// A countingStore counts what is read. It hides what else the store inside can do.
type countingStore struct {
	watchdog.TransactionalStore
	reads, events int
}

func (s *countingStore) Read(ctx context.Context, kind, id string) ([]watchdog.Event, error) {
	return s.count(s.TransactionalStore.Read(ctx, kind, id))
}

func (s *countingStore) Select(ctx context.Context, selection watchdog.Selection) ([]watchdog.Event, error) {
	return s.count(s.TransactionalStore.Select(ctx, selection))
}

func (s *countingStore) count(events []watchdog.Event, err error) ([]watchdog.Event, error) {
	s.reads, s.events = s.reads+1, s.events+len(events)
	return events, err
}

// A history is a run that was cancelled and resumed again and again.
type history struct {
	first, last time.Time
	clock       *clock.Mock
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
	mock := clock.NewMock()
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
			ID: fmt.Sprintf("%d-%d", wd.StartedAt().Unix(), i), AggregateType: watchdog.AggregateType, AggregateID: "run",
			Type: watchdog.EventWarning, Timestamp: at, Payload: payload,
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
