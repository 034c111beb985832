package bench_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
)

// BenchmarkActivity measures a sign of life, as for each token, on one goroutine and on all cores.
func BenchmarkActivity(b *testing.B) {
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "s-1", StartedAt: time.Now()}, watchdog.Config{
		Store: &watchdog.Memory{}, Budget: watchdog.Budget{Idle: time.Hour}, Logger: quiet,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer wd.Close()
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
		b.Run(c.name+"/goroutines=1", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c.signal()
			}
		})
		b.Run(c.name+"/goroutines=all", func(b *testing.B) {
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					c.signal()
				}
			})
		})
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
