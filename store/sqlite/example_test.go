package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

// A run's events, stored and read back. The second append of an ID changes nothing and succeeds.
func Example() {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	ctx := context.Background()

	store, err := sqlite.Open(ctx, filepath.Join(folder, "events.db"))
	if err != nil {
		panic(err)
	}
	defer store.Close()

	cancel := event.Event{
		ID:            "5f1c0f3a-7a1e-5b6e-9a53-0d8c6f1c2b7a",
		AggregateType: event.AggregateType,
		AggregateID:   "session-1",
		Type:          event.Cancel,
		Payload:       []byte(`{"reason":"wall_clock_exceeded"}`),
		Timestamp:     time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC),
	}
	for range 2 {
		if err := store.Append(ctx, cancel); err != nil {
			panic(err)
		}
	}

	events, err := store.Read(ctx, event.AggregateType, "session-1")
	if err != nil {
		panic(err)
	}
	for _, e := range events {
		fmt.Println(e.Timestamp.Format(time.RFC3339), e.Type, string(e.Payload))
	}
	// Output: 2026-03-04T12:00:00Z runtime.watchdog.cancel {"reason":"wall_clock_exceeded"}
}

// A host opens the store and attaches a run. When it attaches again, after a crash for instance, the run keeps its
// window.
func ExampleOpen() {
	folder, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(folder)
	ctx := context.Background()

	store, err := sqlite.Open(ctx, filepath.Join(folder, "events.db"))
	if err != nil {
		panic(err)
	}
	defer store.Close()

	wd, err := watchdog.New(ctx, watchdog.Run{ID: "session-1", StartedAt: time.Now()}, watchdog.Config{
		Store:  store,
		Budget: watchdog.Budget{WallClock: 4 * time.Hour},
	})
	if err != nil {
		panic(err)
	}
	defer wd.Close()

	reason, fired := wd.Fired()
	fmt.Printf("fired: %v %q\n", fired, reason)
	// Output: fired: false ""
}
