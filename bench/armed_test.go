package bench_test

import (
	"context"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
)

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
