package watchdog_test

import (
	"context"
	"sort"
	"sync"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
)

const many = 10000

func report(b *testing.B, late []time.Duration) {
	sort.Slice(late, func(i, j int) bool { return late[i] < late[j] })
	b.ReportMetric(float64(late[len(late)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "p99-us")
}

func BenchmarkLateAfterFunc(b *testing.B) {
	var all []time.Duration
	for b.Loop() {
		late := make([]time.Duration, many)
		at := time.Now().Add(200 * time.Millisecond)
		var wg sync.WaitGroup
		wg.Add(many)
		for i := range many {
			time.AfterFunc(time.Until(at), func() { late[i] = time.Since(at); wg.Done() })
		}
		wg.Wait()
		all = append(all, late...)
	}
	report(b, all)
}

func BenchmarkLateDeadline(b *testing.B) {
	var all []time.Duration
	for b.Loop() {
		late := make([]time.Duration, many)
		at := time.Now().Add(200 * time.Millisecond)
		var wg sync.WaitGroup
		wg.Add(many)
		for i := range many {
			ctx, _ := context.WithDeadline(context.Background(), at)
			context.AfterFunc(ctx, func() { late[i] = time.Since(at); wg.Done() })
		}
		wg.Wait()
		all = append(all, late...)
	}
	report(b, all)
}

func BenchmarkLateWatchdog(b *testing.B) {
	var all []time.Duration
	for b.Loop() {
		late := make([]time.Duration, many)
		start := time.Now()
		at := start.Add(300 * time.Millisecond)
		var wg sync.WaitGroup
		wg.Add(many)
		store := &watchdog.Memory{}
		wds := make([]*watchdog.Watchdog, many)
		for i := range many {
			wd, err := watchdog.New(context.Background(), watchdog.Run{ID: time.Duration(i).String(), StartedAt: start}, watchdog.Config{Store: store, Logger: quietLog(), Budget: watchdog.Budget{WallClock: 300 * time.Millisecond, WarnAt: []float64{}}})
			if err != nil { b.Fatal(err) }
			wds[i] = wd
			context.AfterFunc(wd.Context(), func() { late[i] = time.Since(at); wg.Done() })
		}
		wg.Wait()
		for _, w := range wds { w.Close() }
		all = append(all, late...)
	}
	report(b, all)
}
