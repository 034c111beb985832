package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogtest"
)

// hostLoop is the main loop of a host. Its tests choose the config and the phases.
func hostLoop(ctx context.Context, run watchdog.Run, cfg watchdog.Config, phases ...func(context.Context) error) error {
	wd, err := watchdog.New(ctx, run, cfg)
	if err != nil {
		return err
	}
	defer wd.Close()
	for _, phase := range phases {
		if reason, fired := wd.Fired(); fired {
			return reason
		}
		if err := phase(wd.Context()); err != nil {
			return err
		}
	}
	return nil
}

// In a bubble of testing/synctest the config is that of production: the watchdog's own timer runs on the bubble's time.
// The second phase never returns by itself, and its context ends one nanosecond after the budget.
func TestHostInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run := watchdog.Run{ID: "session-1", StartedAt: time.Now()}
		cfg := watchdog.Config{
			Store:  &watchdog.Memory{},
			Budget: watchdog.Budget{WallClock: 4 * time.Hour},
			Logger: slog.New(slog.DiscardHandler),
		}
		quick := func(context.Context) error {
			time.Sleep(time.Minute)
			return nil
		}
		hang := func(ctx context.Context) error {
			<-ctx.Done()
			return context.Cause(ctx)
		}

		err := hostLoop(t.Context(), run, cfg, quick, hang)

		if !errors.Is(err, watchdog.WallClockExceeded) {
			t.Error("the phase ended with", err)
		}
		if took := time.Since(run.StartedAt); took != 4*time.Hour+1 {
			t.Error("it ended after", took)
		}
	})
}

// A host that has a mock clock already moves the time itself. With PollOnly the watchdog sets no timer and looks only when it is
// called, so the test needs no goroutine and no sleep.
func Example_mockClock() {
	machine := watchdogtest.NewMockClock()
	run := watchdog.Run{ID: "session-1", StartedAt: machine.Now()}
	cfg := watchdog.Config{
		Store:  &watchdog.Memory{},
		Budget: watchdog.Budget{WallClock: 4 * time.Hour},
		Clock:  machine, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	}
	slow := func(context.Context) error {
		machine.Add(3 * time.Hour)
		return nil
	}
	fmt.Println(hostLoop(context.Background(), run, cfg, slow, slow, slow))
	// Output: watchdog_wall_clock_exceeded
}
