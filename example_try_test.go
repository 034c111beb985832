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

// A call that hangs is ended when the ladder asks for a retry or another way, and the host makes it again. Here the
// second way has an answer.
func ExampleWatchdog_Try() {
	machine := clock.NewMock() // a host leaves Clock nil
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
	machine := clock.NewMock() // a host leaves Clock nil
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
