package bench_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
)

var quiet = slog.New(slog.DiscardHandler)

// arm attaches a watchdog with a budget.
func arm(b *testing.B, id string, store watchdog.EventStore, start time.Time, budget time.Duration) *watchdog.Watchdog {
	b.Helper()
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: id, StartedAt: start}, watchdog.Config{
		Store: store, Budget: watchdog.Budget{WallClock: budget, WarnAt: []float64{}}, Logger: quiet,
	})
	if err != nil {
		b.Fatal(err)
	}
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
		b.Run(c.name+"/goroutines=1", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.ask()
			}
		})
		b.Run(c.name+"/goroutines=all", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c.ask()
				}
			})
		})
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
