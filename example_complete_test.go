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

// A run that has done its work never fires, however late another process attaches to it.
func ExampleWatchdog_Complete() {
	machine := clock.NewMock() // a host leaves Clock nil
	run := watchdog.Run{ID: "session-1", StartedAt: machine.Now()}
	cfg := watchdog.Config{
		Store: &watchdog.Memory{}, Clock: machine, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	}
	wd, err := watchdog.New(context.Background(), run, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	machine.Add(time.Hour) // the phases
	fmt.Println(wd.Complete(), context.Cause(wd.Context()))
	wd.Close()

	machine.Add(24 * time.Hour) // the program is started again
	_, err = watchdog.New(context.Background(), run, cfg)
	if errors.Is(err, watchdog.ErrComplete) {
		fmt.Println("done already")
	}
	again, err := watchdog.Resume(context.Background(), run, cfg) // somebody asks to go on all the same
	if err != nil {
		fmt.Println(err)
		return
	}
	defer again.Close()
	fmt.Println("a fresh window, with", again.Remaining())
	// Output:
	// <nil> run is complete
	// done already
	// a fresh window, with 4h0m0s
}
