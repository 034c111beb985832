package watchdog_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog"
)

// A sub-agent may take two hours, and it streams: a minute without a message means that it hangs. Messages that wait for
// the host are no silence.
func ExampleWatchdog_Hold() {
	machine := clock.NewMock() // a host leaves Clock nil
	messages := make(chan string, 8)
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: machine.Now()}, watchdog.Config{
		Store:  &watchdog.Memory{},
		Budget: watchdog.Budget{Idle: 10 * time.Second},
		Busy:   func() bool { return len(messages) > 0 },
		Clock:  machine, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	hold, err := wd.Hold(wd.Context(), "sub-agent", watchdog.HoldLimit{Cap: 2 * time.Hour, Idle: time.Minute})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer hold.Close()
	for range 100 {
		machine.Add(50 * time.Second)
		wd.Activity()
	}
	fmt.Println("it streams:", wd.Stop() == nil)

	messages <- "a long one"
	machine.Add(2 * time.Minute) // in which the host works on the one before
	fmt.Println("one waits:", wd.Stop() == nil)

	<-messages
	machine.Add(2 * time.Minute)
	fmt.Println("it hangs:", wd.Stop().Code, "in", wd.Stop().Hold)
	// Output:
	// it streams: true
	// one waits: true
	// it hangs: watchdog_idle_exceeded in sub-agent
}
