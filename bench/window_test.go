package bench_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
)

// windowRuns is how many runs a median is taken of.
const windowRuns = 5

// BenchmarkWindow measures what a window of so many events costs: to attach to it, to Sync with what nobody changed, to
// end it (the exchange of a trip), and to resume it then. The window is four hours old, and another process has attached
// to it before. Run it once: -benchtime=1x.
func BenchmarkWindow(b *testing.B) {
	inStores(b, func(b *testing.B, open func() event.TransactionalStore) {
		b.Helper()
		for _, events := range []int{1_000, 10_000, 100_000} {
			b.Run(fmt.Sprintf("events=%d", events), func(b *testing.B) {
				store := open()
				for b.Loop() {
					took := map[string][]time.Duration{}
					for n := range windowRuns {
						run := longWindow(b, store, fmt.Sprint("run-", b.N, "-", n), events)
						run.measure(b, store, took)
					}
					for what, all := range took {
						slices.Sort(all)
						b.ReportMetric(all[len(all)/2].Seconds()*1e3, "ms-"+what)
					}
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	})
}

type windowRun watchdog.Run

func (r windowRun) config(store watchdog.EventStore) watchdog.Config {
	return watchdog.Config{
		Store: store, Logger: quiet, RecordTimeout: time.Minute, Budget: watchdog.Budget{WallClock: 1000 * time.Hour},
	}
}

func (r windowRun) attach(b *testing.B, store watchdog.EventStore) *watchdog.Watchdog {
	b.Helper()
	wd, err := watchdog.New(b.Context(), watchdog.Run(r), r.config(store))
	check(b, err)
	return wd
}

func (r windowRun) measure(b *testing.B, store watchdog.EventStore, took map[string][]time.Duration) {
	b.Helper()
	var wd *watchdog.Watchdog
	measured := func(what string, call func() error) {
		began := time.Now()
		err := call()
		took[what] = append(took[what], time.Since(began))
		check(b, err)
	}
	check(b, r.attach(b, store).Close())
	measured("attach", func() error { wd = r.attach(b, store); return nil })
	for range 3 {
		measured("sync", func() error { _, err := wd.Sync(b.Context()); return err })
	}
	measured("trip", func() error {
		_, err := wd.Cancel(watchdog.Cancellation{Reason: "user_asked"})
		return err
	})
	check(b, wd.Close())
	measured("resume", func() (err error) {
		wd, err = watchdog.Resume(b.Context(), watchdog.Run(r), r.config(store))
		return err
	})
	check(b, wd.Close())
}

// longWindow writes a window as a run of many stretches of silence leaves it: of ten events are four of an approval that
// stops the wall clock, four of silence that is waited for, and two of progress.
func longWindow(b *testing.B, store watchdog.EventStore, id string, events int) windowRun {
	b.Helper()
	start := time.Now().Add(-4 * time.Hour).UTC().Truncate(time.Microsecond)
	step := 4*time.Hour/time.Duration(events) - time.Nanosecond
	all := make([]watchdog.Event, 0, events)
	add := func(kind string, payload map[string]any) string {
		at := start.Add(time.Duration(len(all)) * step)
		payload["session_started_at"] = start
		text, err := json.Marshal(payload)
		check(b, err)
		e := watchdog.Event{
			ID: fmt.Sprintf("%s-%d", id, len(all)), AggregateType: event.AggregateType, AggregateID: id, Type: kind,
			Timestamp: at, Payload: text,
		}
		all = append(all, e)
		return e.ID
	}
	elapsed := func() float64 { return (time.Duration(len(all)) * step).Seconds() }
	for len(all) < events {
		for range 2 {
			opened := add(event.Hold, map[string]any{
				"hold": "approval", "opened_seconds": elapsed(), "cap_seconds": 600,
			})
			add(event.Release, map[string]any{"hold": "approval", "released_seconds": elapsed(), "opening": opened})
		}
		var waits []string
		for rung := range 2 {
			trip := map[string]any{"reason": "idle_exceeded", "directive": "wait", "attempt": rung + 1}
			add(event.Warning, trip)
			waits = append(waits, add(event.Wait, trip))
		}
		add(event.Progress, map[string]any{"resets": waits[:1]})
		add(event.Progress, map[string]any{"resets": waits[1:]})
	}
	for some := range slices.Chunk(all, 10_000) {
		check(b, store.Append(b.Context(), some...))
	}
	return windowRun{ID: id, StartedAt: start}
}
