package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogtest"
)

// A session's main loop, guarded. The mock clock makes the second phase take five hours.
func Example() {
	machine := watchdogtest.NewMockClock()
	machine.Set(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))

	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: machine.Now()}, watchdog.Config{
		Store:  &watchdog.Memory{},
		Budget: watchdog.Budget{WallClock: 4 * time.Hour},
		Clock:  machine,
		Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	for _, phase := range []string{"plan", "build", "test"} {
		if reason, fired := wd.Fired(); fired {
			fmt.Println("blocked before", phase+":", reason)
			return
		}
		fmt.Println("running", phase)
		if phase == "build" {
			machine.Add(5 * time.Hour)
		}
	}
	// Output:
	// running plan
	// running build
	// blocked before test: watchdog_wall_clock_exceeded
}

// A run that was cancelled is fired from the start when it is attached again, until someone asks to resume it.
func ExampleResume() {
	machine := watchdogtest.NewMockClock()
	store := &watchdog.Memory{}
	run := watchdog.Run{ID: "session-1", StartedAt: machine.Now()}
	cfg := watchdog.Config{Store: store, Clock: machine, Logger: slog.New(slog.DiscardHandler), PollOnly: true}

	first, _ := watchdog.New(context.Background(), run, cfg)
	machine.Add(5 * time.Hour)
	fmt.Println(first.Fired())
	first.Close()

	attached, _ := watchdog.New(context.Background(), run, cfg)
	fmt.Println(attached.Fired())
	attached.Close()

	resumed, _ := watchdog.Resume(context.Background(), run, cfg)
	defer resumed.Close()
	_, fired := resumed.Fired()
	fmt.Println(fired, resumed.Remaining(), resumed.StartedAt().Format(time.TimeOnly))
	// Output:
	// watchdog_wall_clock_exceeded true
	// watchdog_wall_clock_exceeded true
	// false 4h0m0s 05:00:00
}

// The stop is the cause of the run's context, and an error of its own.
func ExampleStop() {
	machine := watchdogtest.NewMockClock()
	wd, _ := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: machine.Now()}, watchdog.Config{
		Store: &watchdog.Memory{}, Clock: machine, Logger: slog.New(slog.DiscardHandler), PollOnly: true,
	})
	defer wd.Close()
	machine.Add(4*time.Hour + 90*time.Second)
	wd.Fired()

	cause := context.Cause(wd.Context())
	var stop *watchdog.Stop
	fmt.Println(errors.Is(cause, watchdog.WallClockExceeded), errors.As(cause, &stop))
	fmt.Println(stop.Code, stop.Elapsed, "of", stop.Budget)
	// Output:
	// true true
	// watchdog_wall_clock_exceeded 4h1m30s of 4h0m0s
}

// An agent that knows how long it has can wrap up in time.
func ExampleWatchdog_Remaining() {
	machine := watchdogtest.NewMockClock()
	wd, _ := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: machine.Now()}, watchdog.Config{
		Store:  &watchdog.Memory{},
		Budget: watchdog.Budget{WallClock: time.Hour, Reserve: 5 * time.Minute},
		Clock:  machine, PollOnly: true,
		OnWarning: func(w watchdog.Warning) { fmt.Printf("%.0f %% used, %v left\n", w.Fraction*100, w.Remaining) },
	})
	defer wd.Close()
	fmt.Println(wd.Remaining())
	machine.Add(50 * time.Minute)
	wd.Fired()
	wd.Extend(30 * time.Minute)
	fmt.Println(wd.Remaining())
	// Output:
	// 55m0s
	// 80 % used, 5m0s left
	// 35m0s
}

// A host that keeps no more of a run than its ID: the store has when it began, over all restarts.
func ExampleRun() {
	machine := watchdogtest.NewMockClock()
	cfg := watchdog.Config{Store: &watchdog.Memory{}, Clock: machine} // such as store/sqlite
	for range 3 {                                                     // each time that the host comes up
		wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1"}, cfg)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("left:", wd.Remaining())
		machine.Add(time.Hour)
		_ = wd.Close()
	}
	// Output:
	// left: 4h0m0s
	// left: 3h0m0s
	// left: 2h0m0s
}

// A session's main loop, guarded from its beginning to its end. The mock clock makes the second phase take five hours.
func ExampleDo() {
	machine := watchdogtest.NewMockClock()
	cfg := watchdog.Config{
		Store: &watchdog.Memory{}, Budget: watchdog.Budget{WallClock: 4 * time.Hour},
		Clock: machine, Logger: slog.New(slog.DiscardHandler),
	}
	session := watchdog.Run{ID: "session-1"} // the store keeps its start

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

	if stop := watchdog.StopOf(err, session.ID); stop != nil { // the run's own, not that of a tool in it
		fmt.Println("blocked:", stop.Code)
	} else {
		fmt.Println("ended:", err)
	}
	// Output:
	// running plan
	// running build
	// blocked: watchdog_wall_clock_exceeded
}

// A run that was stopped, which the user asks to go on with: a fresh window, and the same guard around its loop.
func ExampleWatchdog_Do() {
	machine := watchdogtest.NewMockClock()
	cfg := watchdog.Config{Store: &watchdog.Memory{}, Clock: machine, Logger: slog.New(slog.DiscardHandler)}
	session := watchdog.Run{ID: "session-1", StartedAt: machine.Now()}
	machine.Add(5 * time.Hour)

	work := func(ctx context.Context, _ *watchdog.Watchdog) error { return ctx.Err() }
	err := watchdog.Do(context.Background(), session, cfg, work)
	fmt.Println("stopped:", watchdog.StopOf(err, session.ID) != nil)

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

// A guard of the host's own, here one of what a run costs, ends the run as a limit does. Another process learns of it
// from the store.
func ExampleWatchdog_Cancel() {
	cfg := watchdog.Config{
		Store: &watchdog.Memory{}, Clock: watchdogtest.NewMockClock(), PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	}
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

// A run that has done its work never fires, however late another process attaches to it.
func ExampleWatchdog_Complete() {
	machine := watchdogtest.NewMockClock() // a host leaves Clock nil
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
