package bench_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres/pgtest"
	"github.com/seed62658d38/watchdog/sweep"
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
		events, err := store.Read(context.Background(), event.AggregateType, wd.ID())
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

// BenchmarkDeadHost has a host with 10,000 runs die beside one that lives, and measures the time from the last renewal
// of its lease until a sweeper that runs has cancelled the last of them, and by how much that is over four promises, in
// which the host is found dead. The hosts live a different time each time, so that all phases of the sweeper are met.
func BenchmarkDeadHost(b *testing.B) {
	for _, promise := range []time.Duration{time.Second, 3 * time.Second} {
		b.Run(fmt.Sprintf("in=SQLite/promise=%v", promise), func(b *testing.B) { newSQLite(b).deadHost(b, promise) })
	}
	b.Run("in=PostgreSQL", func(b *testing.B) {
		server := pgtest.Start(b, pgtest.Options{Fsync: true})
		for _, promise := range []time.Duration{time.Second, 3 * time.Second} {
			b.Run(fmt.Sprintf("promise=%v", promise), func(b *testing.B) { newPostgres(b, server).deadHost(b, promise) })
		}
	})
}

func (c *crowd) deadHost(b *testing.B, promise time.Duration) {
	b.Helper()
	var took []time.Duration
	for b.Loop() {
		b.StopTimer()
		c.exec(b, "DELETE FROM watchdog_sessions")
		c.exec(b, "DELETE FROM events")
		c.exec(b, c.dialect.rows, liveRuns, liveRuns)
		dying := c.beginHost(b, fmt.Sprint("dying-", len(took)), promise)
		dying.takeAll(b)
		c.exec(b, c.dialect.tidy)
		living := c.beginHost(b, fmt.Sprint("living-", len(took)), promise)
		b.StartTimer()
		took = append(took, c.dies(b, dying, living, len(took)))
	}
	slices.Sort(took)
	median := took[len(took)/2]
	b.ReportMetric(median.Seconds(), "s-median")
	b.ReportMetric(took[len(took)-1].Seconds(), "s-max")
	b.ReportMetric((median - 4*promise).Seconds(), "s-over-4-promises")
}

// dies has a host live for a few promises, and returns how long after its last renewal the last of its runs was
// cancelled.
func (c *crowd) dies(b *testing.B, dying, living *leased, phase int) time.Duration {
	b.Helper()
	ctx, stop := context.WithCancel(b.Context())
	all := make(chan time.Time, 1)
	cancelled := 0
	sweeper, err := sweep.New(c.store, c.store, sweep.Config{
		StartupDelay: watchdog.None, MinAge: watchdog.None, StalledThreshold: time.Second, Logger: quiet,
		OnPass: func(p sweep.Pass) {
			if cancelled += p.Lost; cancelled == liveRuns {
				all <- time.Now()
			}
		},
	})
	check(b, err)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = sweeper.Run(ctx) })
	running.Go(func() { living.live(ctx) })
	lives, dies := context.WithTimeout(ctx, 4*dying.Promise+time.Duration(phase%7)*dying.Promise/10)
	defer dies()
	last := dying.live(lives)
	select {
	case at := <-all:
		return at.Sub(last)
	case <-time.After(time.Minute):
		b.Fatal(sweeper.Stats())
		return 0
	}
}

// beginHost begins the lease of a host.
func (c *crowd) beginHost(b *testing.B, name string, promise time.Duration) *leased {
	b.Helper()
	l := &leased{crowd: c, Lease: session.Lease{ID: name, Host: name, Promise: promise, Beat: 1}}
	check(b, c.store.BeginLease(b.Context(), l.Lease))
	return l
}

// takeAll has the host take over all rows.
func (l *leased) takeAll(b *testing.B) {
	b.Helper()
	fresh := make([]session.Freshness, liveRuns)
	for i := range fresh {
		fresh[i] = session.Freshness{RunID: fmt.Sprintf("run-%07d", i+1), Attempt: 1}
	}
	skipped, err := l.store.Freshen(b.Context(), l.ID, fresh)
	mustBe(b, 0, len(skipped.Gone)+len(skipped.Locked)+len(skipped.Failed), err)
}

// live renews the lease until ctx ends, and returns when it did so last. It vouches for no silence.
func (l *leased) live(ctx context.Context) (last time.Time) {
	tick := time.NewTicker(l.Promise / 3)
	defer tick.Stop()
	for {
		l.Beat++
		l.Clock += l.Promise / 3
		if l.store.RenewLease(context.WithoutCancel(ctx), l.Lease) == nil {
			last = time.Now()
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return last
		}
	}
}
