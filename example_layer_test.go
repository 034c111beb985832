package watchdog_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/watchdogtest"
)

// A step has limits of its own, within what is left of its run. Its end leaves the run as it is.
func ExampleWatchdog_Layer() {
	machine := watchdogtest.NewMockClock() // a host leaves Clock nil
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

	events, err := store.Read(context.Background(), event.AggregateType, "session-1/build")
	fmt.Println(events[len(events)-1].Type, err)
	// Output:
	// session-1/build in session-1 ended: watchdog_wall_clock_exceeded
	// session-1 fired: false left: 1h39m0s
	// runtime.watchdog.cancel <nil>
}

// A call that hangs is ended when the ladder asks for a retry or another way, and the host makes it again. Here the
// second way has an answer.
func ExampleWatchdog_Try() {
	machine := watchdogtest.NewMockClock() // a host leaves Clock nil
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: machine.Now()}, watchdog.Config{
		Store: &watchdog.Memory{},
		Budget: watchdog.Budget{
			Idle:    10 * time.Minute,
			Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveUnstuck}},
		},
		Clock: machine, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	way := 1
	call := func(ctx context.Context) error {
		fmt.Println("calling, way", way)
		if way == 1 {
			machine.Add(10*time.Minute + time.Second) // no answer
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	err = wd.Try(wd.Context(), call)
	for asked := (*watchdog.Directive)(nil); errors.As(err, &asked); err = wd.Try(wd.Context(), call) {
		fmt.Println(asked.Kind, "because of", asked.Reason)
		if asked.Kind == watchdog.DirectiveUnstuck {
			way++
		}
	}
	fmt.Println("answer:", err)
	// Output:
	// calling, way 1
	// retry because of watchdog_idle_exceeded
	// calling, way 1
	// unstuck because of watchdog_idle_exceeded
	// calling, way 2
	// answer: <nil>
}

// Where only the reserve is left, the host is asked once to return what it has, and may use the reserve for that.
func Example_wrapUp() {
	machine := watchdogtest.NewMockClock() // a host leaves Clock nil
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: machine.Now()}, watchdog.Config{
		Store:  &watchdog.Memory{},
		Budget: watchdog.Budget{WallClock: time.Hour, Reserve: 5 * time.Minute},
		Clock:  machine, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	for step := 1; ; step++ {
		for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
			if d.Kind == watchdog.DirectiveWrapUp {
				fmt.Println("returning what there is, within", wd.Remaining())
				fmt.Println("complete:", wd.Complete())
				return
			}
		}
		fmt.Println("step", step, "with", wd.Remaining(), "left")
		machine.Add(28 * time.Minute)
	}
	// Output:
	// step 1 with 55m0s left
	// step 2 with 27m0s left
	// returning what there is, within 4m0s
	// complete: <nil>
}

// A person who takes three hours to approve is not idleness, and uses up nothing of the two hours that the run has. A tool call that takes longer than its cap ends the run.
func ExampleWatchdog_During() {
	machine := watchdogtest.NewMockClock() // a host leaves Clock nil
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

// A sub-agent may take two hours, and it streams: a minute without a message means that it hangs.
func ExampleWatchdog_Hold() {
	machine := watchdogtest.NewMockClock() // a host leaves Clock nil
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: machine.Now()}, watchdog.Config{
		Store:  &watchdog.Memory{},
		Budget: watchdog.Budget{Idle: 10 * time.Second},
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

	machine.Add(2 * time.Minute)
	fmt.Println("it hangs:", wd.Stop().Code, "in", wd.Stop().Hold)
	// Output:
	// it streams: true
	// it hangs: watchdog_idle_exceeded in sub-agent
}
