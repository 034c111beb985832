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

// A guard of the host's own, here one of what a run costs, ends it as a limit does; another process that runs it learns of that.
func ExampleWatchdog_Cancel() {
	cfg := watchdog.Config{Store: &watchdog.Memory{}, Clock: clock.NewMock(), Logger: slog.New(slog.DiscardHandler), PollOnly: true}
	run := watchdog.Run{ID: "session-1", StartedAt: cfg.Clock.Now()}
	wd, _ := watchdog.New(context.Background(), run, cfg)
	defer wd.Close()
	elsewhere, _ := watchdog.New(context.Background(), run, cfg)
	defer elsewhere.Close()

	stop, err := wd.Cancel(watchdog.Cancellation{Reason: "cost_limit_reached", Elapsed: 42 * time.Minute})
	fmt.Println(stop.Code, stop.Elapsed, err)
	fmt.Println(errors.Is(context.Cause(wd.Context()), watchdog.StopReason("cost_limit_reached")))

	heeded, err := elsewhere.Sync(context.Background())
	fmt.Println(heeded.Code, err)
	// Output:
	// cost_limit_reached 42m0s <nil>
	// true
	// cost_limit_reached <nil>
}
