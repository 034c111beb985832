package bench_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// together is the number of runs that trip at one instant.
const together = 50_000

// BenchmarkTogether measures when the last of 50,000 runs that trip at one instant has ended, how many of them are
// recorded by then, and how many goroutines that takes at the most. Run it a few times: -benchtime=3x.
func BenchmarkTogether(b *testing.B) {
	b.Run("store=memory", func(b *testing.B) { endTogether(b, &watchdog.Memory{}) })
	b.Run("store=sqlite", func(b *testing.B) { endTogether(b, newSQLite(b).store.(watchdog.EventStore)) })
	b.Run("store=postgres", func(b *testing.B) {
		server := pgtest.Start(b, pgtest.Options{Fsync: true})
		endTogether(b, newPostgres(b, server).store.(watchdog.EventStore))
	})
}

func endTogether(b *testing.B, store watchdog.EventStore) {
	b.Helper()
	var last time.Duration
	var recorded, peak int
	for b.Loop() {
		took, stored, goroutines := oneEnd(b, store)
		last, recorded, peak = last+took, recorded+stored, max(peak, goroutines)
	}
	b.ReportMetric(last.Seconds()*1e3/float64(b.N), "ms-last")
	b.ReportMetric(float64(recorded)/float64(b.N), "recorded")
	b.ReportMetric(float64(peak), "goroutines-peak")
	b.ReportMetric(0, "ns/op")
}

// oneEnd has all runs trip at one instant, and returns how much later the last one ended.
func oneEnd(b *testing.B, store watchdog.EventStore) (last time.Duration, recorded, peak int) {
	b.Helper()
	runs, at := armTogether(b, store)
	before := runtime.NumGoroutine()
	var late atomic.Int64
	var all sync.WaitGroup
	all.Add(together)
	for _, wd := range runs {
		context.AfterFunc(wd.Context(), func() { // short, so that few of its goroutines are counted
			late.Store(max(late.Load(), int64(time.Since(at))))
			all.Done()
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	for waiting := true; waiting; {
		select {
		case <-done:
			waiting = false
		case <-time.After(5 * time.Millisecond):
			peak = max(peak, runtime.NumGoroutine()-before-1)
		}
	}
	for _, wd := range runs { // before a Close, which tries again
		events, err := store.Read(context.Background(), watchdog.AggregateType, wd.ID())
		if err == nil && len(events) == 1 {
			recorded++
		}
		_ = wd.Close()
	}
	return time.Duration(late.Load()), recorded, peak
}

// armTogether attaches to the runs, from a few goroutines, well before the instant.
func armTogether(b *testing.B, store watchdog.EventStore) (runs []*watchdog.Watchdog, at time.Time) {
	b.Helper()
	const wide = 8
	runs, at = make([]*watchdog.Watchdog, together), time.Now().Add(armingTime)
	prefix := at.Format("05.000000 ")
	var armers sync.WaitGroup
	for first := range wide {
		armers.Go(func() {
			for i := first; i < together; i += wide {
				runs[i] = arm(b, prefix+strconv.Itoa(i), store, at.Add(-time.Hour), time.Hour)
			}
		})
	}
	armers.Wait()
	if time.Now().After(at) {
		b.Skip("arming took longer than the machine has time for")
	}
	return runs, at
}

// armingTime is how long arming may take.
const armingTime = 25 * time.Second
