package bench_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"sync"
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
			ID: run, AggregateType: watchdog.AggregateType, AggregateID: run, Type: watchdog.EventCancel,
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
