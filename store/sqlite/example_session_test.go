package sqlite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/store/sqlite"
)

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
