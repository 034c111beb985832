package bench_test

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
)

// together is the number of runs that trip at one instant.
const together = 50_000

// BenchmarkTogether measures when the last of 50,000 runs that trip at one instant has ended, how many of them are
// recorded by then, how many goroutines that takes at the most, and what the process allocates for each run meanwhile.
// Run it a few times: -benchtime=3x.
func BenchmarkTogether(b *testing.B) {
	b.Run("store=memory", func(b *testing.B) { endTogether(b, &watchdog.Memory{}, 5*time.Second) })
	b.Run("store=sqlite", func(b *testing.B) { endTogether(b, newSQLite(b).store.(watchdog.EventStore), 40*time.Second) })
	b.Run("store=postgres", func(b *testing.B) {
		server := pgtest.Start(b, pgtest.Options{Fsync: true})
		endTogether(b, newPostgres(b, server).store.(watchdog.EventStore), 30*time.Second)
	})
}

// endTogether gives the runs so long to attach.
func endTogether(b *testing.B, store watchdog.EventStore, arming time.Duration) {
	b.Helper()
	var last time.Duration
	var recorded, peak int
	var spent allocated
	for b.Loop() {
		took, stored, goroutines := oneEnd(b, store, arming, &spent)
		last, recorded, peak = last+took, recorded+stored, max(peak, goroutines)
	}
	spent.report(b)
	b.ReportMetric(last.Seconds()*1e3/float64(b.N), "ms-last")
	b.ReportMetric(float64(recorded)/float64(b.N), "recorded")
	b.ReportMetric(float64(peak), "goroutines-peak")
	b.ReportMetric(0, "ns/op")
}

// oneEnd has all runs trip at one instant, and returns how much later the last one ended.
func oneEnd(b *testing.B, store watchdog.EventStore, arming time.Duration, spent *allocated) (
	last time.Duration, recorded, peak int,
) {
	b.Helper()
	b.StopTimer()
	at := time.Now().Add(arming)
	runs := armTogether(b, store, at)
	time.Sleep(time.Until(at) - 20*time.Millisecond)
	b.StartTimer()
	spent.begin()
	before := runtime.NumGoroutine()
	done := make(chan time.Duration, 1)
	go func() {
		for _, wd := range runs {
			<-wd.Context().Done()
		}
		done <- time.Since(at)
	}()
	for waiting := true; waiting; {
		select {
		case last = <-done:
			waiting = false
		case <-time.After(2 * time.Millisecond):
			peak = max(peak, runtime.NumGoroutine()-before-1)
		}
	}
	spent.end()
	b.StopTimer()
	defer b.StartTimer()
	for _, wd := range runs { // before a Close, which tries again
		events, err := store.Read(context.Background(), watchdog.AggregateType, wd.ID())
		if err == nil && len(events) == 1 {
			recorded++
		}
		_ = wd.Close()
	}
	return last, recorded, peak
}

// armTogether attaches to the runs, from a few goroutines, well before the instant.
func armTogether(b *testing.B, store watchdog.EventStore, at time.Time) (runs []*watchdog.Watchdog) {
	b.Helper()
	const wide = 8
	runs = make([]*watchdog.Watchdog, together)
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
	return runs
}

// allocated is what the process allocates while something is measured that is done for together runs at once.
type allocated struct {
	before         runtime.MemStats
	objects, bytes uint64
}

func (a *allocated) begin() { runtime.ReadMemStats(&a.before) }

func (a *allocated) end() {
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	a.objects += after.Mallocs - a.before.Mallocs
	a.bytes += after.TotalAlloc - a.before.TotalAlloc
}

func (a *allocated) report(b *testing.B) {
	b.Helper()
	runs := float64(together * b.N)
	b.ReportMetric(float64(a.objects)/runs, "allocs/run")
	b.ReportMetric(float64(a.bytes)/runs, "B/run")
}
