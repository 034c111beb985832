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

// BenchmarkPauses measures what it costs to attach to a window of so many pauses that overlap: each is open for an hour,
// and the last is opened before the first ends.
func BenchmarkPauses(b *testing.B) {
	inStores(b, func(b *testing.B, open func() event.TransactionalStore) {
		b.Helper()
		for _, pauses := range []int{1_000, 4_000, 15_000} {
			b.Run(fmt.Sprintf("pauses=%d", pauses), func(b *testing.B) {
				store := open()
				run := pausedWindow(b, store, fmt.Sprint("paused-", b.N), pauses)
				for b.Loop() {
					wd := run.attach(b, store)
					b.StopTimer()
					check(b, wd.Close())
					b.StartTimer()
				}
			})
		}
	})
}

func pausedWindow(b *testing.B, store watchdog.EventStore, id string, pauses int) windowRun {
	b.Helper()
	start := time.Now().Add(-4 * time.Hour).UTC().Truncate(time.Microsecond)
	step := time.Hour / time.Duration(pauses)
	var all []watchdog.Event
	add := func(kind, name string, at time.Duration, payload map[string]any) {
		payload["session_started_at"] = start
		text, err := json.Marshal(payload)
		check(b, err)
		all = append(all, watchdog.Event{
			ID: name, AggregateType: event.AggregateType, AggregateID: id, Type: kind,
			Timestamp: start.Add(at), Payload: text,
		})
	}
	for i := range pauses {
		at, key, name := time.Duration(i)*step, fmt.Sprint("tool-", i), fmt.Sprintf("%s-%d", id, i)
		add(event.Hold, name, at, map[string]any{
			"hold": key, "opened_seconds": at.Seconds(), "cap_seconds": 7200,
		})
		add(event.Release, name+"-end", at+time.Hour, map[string]any{
			"hold": key, "released_seconds": (at + time.Hour).Seconds(), "opening": name,
		})
	}
	for some := range slices.Chunk(all, 10_000) {
		check(b, store.Append(b.Context(), some...))
	}
	return windowRun{ID: id, StartedAt: start}
}
