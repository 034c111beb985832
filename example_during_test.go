package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog"
)

// A person who takes three hours to approve is not idleness, and uses up nothing of the two hours that the run has. A tool call that takes longer than its cap ends the run.
func ExampleWatchdog_During() {
	machine := clock.NewMock() // a host leaves Clock nil
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: machine.Now()}, watchdog.Config{
		Store:  &watchdog.Memory{},
		Budget: watchdog.Budget{WallClock: 2 * time.Hour, Idle: 10 * time.Minute},
		Clock:  machine, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	approval := watchdog.HoldLimit{Cap: 24 * time.Hour, PausesWallClock: true}
	err = wd.During(wd.Context(), "approval", approval, func(context.Context) error {
		machine.Add(3 * time.Hour)
		return nil
	})
	_, fired := wd.Fired()
	fmt.Println("approved:", err, "fired:", fired)

	err = wd.During(wd.Context(), "tool:grep", watchdog.HoldLimit{Cap: time.Minute}, func(ctx context.Context) error {
		machine.Add(2 * time.Minute)
		wd.Fired() // with a timer nothing need be called
		return context.Cause(ctx)
	})
	fmt.Println(errors.Is(err, watchdog.HoldExceeded), wd.Stop().Hold, wd.Stop().Elapsed, "of", wd.Stop().Budget)
	// Output:
	// approved: <nil> fired: false
	// true tool:grep 2m0s of 1m0s
}
