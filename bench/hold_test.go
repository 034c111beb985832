package bench_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
)

// BenchmarkHolds10000 opens ten thousand holds of one run and closes them again, as a host with that many calls in
// flight does.
func BenchmarkHolds10000(b *testing.B) {
	const open = 10_000
	keys := make([]string, open)
	for i := range keys {
		keys[i] = "call-" + strconv.Itoa(i)
	}
	holds := make([]*watchdog.Hold, open)
	for _, where := range []string{"run", "layer"} {
		b.Run("of=a "+where, func(b *testing.B) {
			wd := holder(b, where == "layer")
			b.ReportAllocs()
			for b.Loop() {
				for i, key := range keys {
					var err error
					limit := watchdog.HoldLimit{Cap: time.Hour + time.Duration(i*7919%open)}
					if holds[i], err = wd.Hold(context.Background(), key, limit); err != nil {
						b.Fatal(err)
					}
				}
				for _, h := range holds {
					h.Close()
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*open), "ns/hold")
		})
	}
}

// holder is a run, or its layer, whose limits heed holds.
func holder(b *testing.B, inside bool) *watchdog.Watchdog {
	b.Helper()
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
		Store: &watchdog.Memory{}, Budget: watchdog.Budget{Idle: time.Hour}, Logger: quiet,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { wd.Close() })
	if !inside {
		return wd
	}
	layer, err := wd.Layer("step", watchdog.Budget{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { layer.Close() })
	return layer
}
