package postgres_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/store/postgres"
)

// A host opens the store and attaches a run. Its keeper keeps the row of the run, so that other hosts see the run and
// can cancel it.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	store, err := postgres.Open(ctx, "postgres://app@db.internal/agents", postgres.Config{Schema: "watchdog"})
	if err != nil {
		panic(err)
	}
	defer store.Close()

	keeper, err := session.NewKeeper(session.KeeperConfig{Store: store})
	if err != nil {
		panic(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = keeper.Run(ctx)
	}()
	defer func() { stop(); <-ended }()

	wd, err := watchdog.New(ctx, watchdog.Run{ID: "session-1", StartedAt: time.Now()}, watchdog.Config{
		Store:  store,
		Keeper: keeper,
		Budget: watchdog.Budget{WallClock: 4 * time.Hour},
	})
	if err != nil {
		panic(err)
	}
	defer wd.Close()

	row, err := store.Session(ctx, "session-1")
	if err != nil {
		panic(err)
	}
	fmt.Println(row.Status, "in attempt", row.Attempt)
}
