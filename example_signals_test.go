package watchdog_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog"
)

// Deep code finds the watchdog in its context. Every token is activity, so the limit is the silence between two tokens.
func ExampleWatchdog_Activity() {
	machine := clock.NewMock() // a host leaves Clock nil
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: machine.Now()}, watchdog.Config{
		Store:  &watchdog.Memory{},
		Budget: watchdog.Budget{Idle: 5 * time.Minute},
		Clock:  machine, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	receive := func(ctx context.Context, token string) {
		watchdog.FromContext(ctx).Activity() // does nothing in a context without a run
	}
	for _, token := range []string{"Let", " me", " think"} {
		machine.Add(4 * time.Minute)
		receive(wd.Context(), token)
	}
	fmt.Println(wd.Fired())
	machine.Add(6 * time.Minute) // the stream is silent
	fmt.Println(wd.Fired())
	// Output:
	//  false
	// watchdog_idle_exceeded true
}

// A run can be busy and get nowhere: activity does not restart the limit of no progress.
func ExampleWatchdog_Progress() {
	machine := clock.NewMock() // a host leaves Clock nil
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: machine.Now()}, watchdog.Config{
		Store:  &watchdog.Memory{},
		Budget: watchdog.Budget{Idle: 5 * time.Minute, NoProgress: 30 * time.Minute},
		Clock:  machine, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	machine.Add(4 * time.Minute)
	wd.Progress() // a test passes now that did not before
	for wd.Context().Err() == nil {
		machine.Add(time.Minute)
		wd.Activity() // tokens, heartbeats, the same test failing again
		wd.Fired()
	}
	fmt.Println(wd.Stop().Code, "after", wd.Stop().Elapsed)
	// Output: watchdog_no_progress_exceeded after 31m0s
}

// A status that flaps between two values is not progress: a digest counts once.
func ExampleWatchdog_ProgressDigest() {
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: time.Now()}, watchdog.Config{
		Store:  &watchdog.Memory{},
		Budget: watchdog.Budget{NoProgress: 30 * time.Minute},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	for _, status := range []string{"pending", "failing", "pending", "failing", "ready"} {
		fmt.Println(status, wd.ProgressDigest(status))
	}
	// Output:
	// pending true
	// failing true
	// pending false
	// failing false
	// ready true
}
