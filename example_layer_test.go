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

// A step has limits of its own, within what is left of its run. Its end leaves the run as it is.
func ExampleWatchdog_Layer() {
	machine := clock.NewMock() // a host leaves Clock nil
	store := &watchdog.Memory{}
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: machine.Now()}, watchdog.Config{
		Store:  store,
		Budget: watchdog.Budget{WallClock: 2 * time.Hour},
		Clock:  machine, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	build, err := wd.Layer("build", watchdog.Budget{WallClock: 20 * time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer build.Close()
	machine.Add(21 * time.Minute) // what is done with build.Context() hangs
	build.Fired()

	var stop *watchdog.Stop
	if errors.As(context.Cause(build.Context()), &stop) {
		fmt.Println(stop.RunID, "in", stop.Parent, "ended:", stop.Code)
	}
	_, fired := wd.Fired()
	fmt.Println(wd.ID(), "fired:", fired, "left:", wd.Remaining())

	events, err := store.Read(context.Background(), watchdog.AggregateType, "session-1/build")
	fmt.Println(events[len(events)-1].Type, err)
	// Output:
	// session-1/build in session-1 ended: watchdog_wall_clock_exceeded
	// session-1 fired: false left: 1h39m0s
	// runtime.watchdog.cancel <nil>
}
