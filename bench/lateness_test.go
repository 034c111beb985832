package bench_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
)

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
