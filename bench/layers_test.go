package bench_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
)

// BenchmarkOpenLayers does one thing in each of the open layers of a session in turn: however many there are, it costs
// what it does in one.
func BenchmarkOpenLayers(b *testing.B) {
	for _, what := range []struct {
		name string
		do   func(b *testing.B, layer *watchdog.Watchdog)
	}{
		{"a hold", func(b *testing.B, layer *watchdog.Watchdog) {
			b.Helper()
			h, err := layer.Hold(context.Background(), "tool", watchdog.HoldLimit{Cap: time.Hour})
			if err != nil {
				b.Fatal(err)
			}
			h.Close()
		}},
		{"a charge", func(b *testing.B, layer *watchdog.Watchdog) {
			b.Helper()
			c, err := layer.Admit(context.Background(), "", watchdog.Amount{Requests: 1})
			if err != nil {
				b.Fatal(err)
			}
			if err := c.Settle(watchdog.Amount{Requests: 1}); err != nil {
				b.Fatal(err)
			}
		}},
	} {
		for _, open := range []int{1, 10_000} {
			b.Run(fmt.Sprintf("do=%s/layers=%d", what.name, open), func(b *testing.B) {
				layers := openLayers(b, open)
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					what.do(b, layers[i])
					i = (i + 1) % open
				}
			})
		}
	}
}

// BenchmarkLayer makes a layer and closes it.
func BenchmarkLayer(b *testing.B) {
	b.Run("with=watchdog", func(b *testing.B) {
		wd := arm(b, "s-1", &watchdog.Memory{}, time.Now(), time.Hour)
		defer wd.Close()
		b.ReportAllocs()
		for b.Loop() {
			layer, err := wd.Layer("step", watchdog.Budget{WallClock: time.Minute})
			if err != nil {
				b.Fatal(err)
			}
			layer.Close()
		}
	})
	b.Run("with=WithDeadlineCause", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, cancel := context.WithDeadlineCause(context.Background(), time.Now().Add(time.Minute), watchdog.WallClockExceeded)
			cancel()
		}
	})
}

// openLayers makes a session with so many layers.
func openLayers(b *testing.B, n int) (layers []*watchdog.Watchdog) {
	b.Helper()
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
		Store: &watchdog.Memory{}, Logger: quiet,
		Budget: watchdog.Budget{Idle: time.Hour, Spend: watchdog.Spend{Requests: 1 << 60}},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = wd.Close() })
	for range n {
		layer, err := wd.Layer("step", watchdog.Budget{})
		if err != nil {
			b.Fatal(err)
		}
		layers = append(layers, layer)
	}
	return layers
}
