package bench_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog"
)

var windowStart = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// A windowClock shows the time that it is set to, and has no timers that anybody waits for.
type windowClock struct {
	*clock.Mock
	at time.Time
}

func (c *windowClock) Now() time.Time                  { return c.at }
func (c *windowClock) Since(t time.Time) time.Duration { return c.at.Sub(t) }

// windowRun is a run whose ladder ends in a wait.
func windowRun(at *windowClock, store watchdog.EventStore) (watchdog.Run, watchdog.Config) {
	return watchdog.Run{ID: "run-1", StartedAt: windowStart}, watchdog.Config{
		Store: store, Clock: at, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
		Budget: watchdog.Budget{
			WallClock: watchdog.NoLimit, Idle: time.Minute,
			Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveWait}},
		},
	}
}

// fillWindow has a run idle for too long, a minute at a time, until its window has so many events.
func fillWindow(tb testing.TB, store *watchdog.Memory, events int) *windowClock {
	tb.Helper()
	at := &windowClock{clock.NewMock(), windowStart}
	run, cfg := windowRun(at, store)
	wd, err := watchdog.New(context.Background(), run, cfg)
	check(tb, err)
	for range events / 3 {
		at.at = at.at.Add(time.Minute + time.Microsecond)
		if _, asked := wd.Poll(); !asked {
			tb.Fatal("a run that is idle for too long was asked nothing")
		}
		wd.Progress()
		wd.Fired() // records that
	}
	return at
}

// A forgetful store says of each exchange that it carried it out, and stores nothing.
type forgetful struct{ watchdog.TransactionalStore }

func (s forgetful) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	for _, x := range exchanges {
		events, err := s.Select(ctx, x.Selection)
		if err != nil {
			return err
		}
		x.Kept = x.Decide(events)
	}
	return nil
}

// BenchmarkWindow attaches to a run, syncs it and finds it stopped, which costs the same however many events its window
// has: three for each minute.
func BenchmarkWindow(b *testing.B) {
	sizes := []int{10, 1_000, 100_000}
	if os.Getenv("WATCHDOG_LONG") != "" {
		sizes = append(sizes, 1_000_000)
	}
	for _, size := range sizes {
		memory := &watchdog.Memory{}
		at := fillWindow(b, memory, size)
		b.Run("in=Memory", func(b *testing.B) { benchWindow(b, memory, at, size) })
		inStores(b, func(b *testing.B, open func() watchdog.TransactionalStore) {
			b.Helper()
			store := open()
			all, err := memory.Read(context.Background(), watchdog.AggregateType, "run-1")
			check(b, err)
			for len(all) > 0 {
				n := min(len(all), 5000)
				check(b, store.Append(context.Background(), all[:n]...))
				all = all[n:]
			}
			benchWindow(b, store, at, size)
		})
	}
}

func benchWindow(b *testing.B, store watchdog.TransactionalStore, at *windowClock, size int) {
	b.Helper()
	run, cfg := windowRun(at, store)
	attach := func() *watchdog.Watchdog {
		wd, err := watchdog.New(context.Background(), run, cfg)
		check(b, err)
		return wd
	}
	b.Run(fmt.Sprintf("New/events=%d", size), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			check(b, attach().Close())
		}
	})
	b.Run(fmt.Sprintf("Sync/events=%d", size), func(b *testing.B) {
		wd := attach()
		b.ReportAllocs()
		for b.Loop() {
			_, err := wd.Sync(context.Background())
			check(b, err)
		}
	})
	cfg.Store = forgetful{store}
	b.Run(fmt.Sprintf("trip/events=%d", size), func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			b.StopTimer()
			wd := attach()
			b.StartTimer()
			_, err := wd.Cancel(watchdog.Cancellation{Reason: "host_gone"})
			check(b, err)
		}
	})
}
