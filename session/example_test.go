package session_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// A process keeps one row for each of its runs, for other hosts to see.
func ExampleKeeper() {
	store := &session.Memory{} // or that of store/sqlite or store/postgres
	keeper, err := session.NewKeeper(session.KeeperConfig{Store: store, Host: "host-1"})
	if err != nil {
		panic(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = keeper.Run(ctx) })

	run := watchdog.Run{ID: "s-1", StartedAt: time.Now()}
	wd, err := watchdog.New(ctx, run, watchdog.Config{Store: store, Keeper: keeper})
	if err != nil {
		panic(err)
	}
	row, _ := store.Session(ctx, "s-1")
	fmt.Println(row.Status, "on", row.Host, "in attempt", row.Attempt)

	wd.Close() // before the keeper ends, so that it writes the end
	stop()
	running.Wait()
	row, _ = store.Session(context.Background(), "s-1")
	fmt.Println(row.Status)
	// Output:
	// active on host-1 in attempt 1
	// finished
}
