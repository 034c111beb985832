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

// A session's main loop, guarded from its beginning to its end. The mock clock makes the second phase take five hours.
func ExampleDo() {
	machine := clock.NewMock()
	cfg := watchdog.Config{
		Store: &watchdog.Memory{}, Budget: watchdog.Budget{WallClock: 4 * time.Hour},
		Clock: machine, Logger: slog.New(slog.DiscardHandler),
	}
	session := watchdog.Run{ID: "session-1", StartedAt: machine.Now()}

	phases := []string{"plan", "build", "test"}
	err := watchdog.Do(context.Background(), session, cfg, func(ctx context.Context, _ *watchdog.Watchdog) error {
		for _, phase := range phases {
			if ctx.Err() != nil {
				return fmt.Errorf("before %s: %w", phase, context.Cause(ctx))
			}
			fmt.Println("running", phase)
			if phase == "build" {
				machine.Add(5 * time.Hour) // it hangs
				<-ctx.Done()
			}
		}
		return nil
	})

	var stop *watchdog.Stop
	switch {
	case errors.As(err, &stop):
		fmt.Println("blocked:", stop.Code)
	case err != nil:
		fmt.Println("failed:", err)
	default:
		fmt.Println("complete")
	}
	// Output:
	// running plan
	// running build
	// blocked: watchdog_wall_clock_exceeded
}

// A run that was stopped, which the user asks to go on with: a fresh window, and the same guard around its loop.
func ExampleWatchdog_Do() {
	machine := clock.NewMock()
	cfg := watchdog.Config{Store: &watchdog.Memory{}, Clock: machine, Logger: slog.New(slog.DiscardHandler)}
	session := watchdog.Run{ID: "session-1", StartedAt: machine.Now()}
	machine.Add(5 * time.Hour)

	work := func(ctx context.Context, _ *watchdog.Watchdog) error { return ctx.Err() }
	var stop *watchdog.Stop
	err := watchdog.Do(context.Background(), session, cfg, work)
	fmt.Println("stopped:", errors.As(err, &stop))

	wd, err := watchdog.Resume(context.Background(), session, cfg)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("resumed:", wd.Do(work))
	// Output:
	// stopped: true
	// resumed: <nil>
}
