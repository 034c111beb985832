package watchdog_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/watchdogtest"
)

// Deep code finds the watchdog in its context. Every token is activity, so the limit is the silence between two tokens.
func ExampleWatchdog_Activity() {
	machine := watchdogtest.NewMockClock() // a host leaves Clock nil
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
	machine := watchdogtest.NewMockClock() // a host leaves Clock nil
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

// A host that has an event stream says once what its kinds of event mean, feeds the stream, and calls no other method.
func ExampleWatchdog_Observe() {
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: time.Now()}, watchdog.Config{
		Store:  &watchdog.Memory{},
		Budget: watchdog.Budget{Idle: 10 * time.Minute, NoProgress: 30 * time.Minute},
		Kinds: watchdog.Kinds{
			Material: []string{"file.written", "test.passed"},
			Activity: []string{"token", "tool.output"},
			Ignored:  []string{"heartbeat"},
			Unknown:  watchdog.ClassActivity,
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	for _, kind := range []string{"token", "heartbeat", "file.written", "tool.started"} {
		fmt.Println(kind, "is", wd.Observe(kind))
	}
	// Output:
	// token is activity
	// heartbeat is ignored
	// file.written is material
	// tool.started is activity
}

// A silent run is asked to retry, then to change its approach, and only then cancelled. The host polls between phases.
func ExampleWatchdog_Poll() {
	machine := watchdogtest.NewMockClock() // a host leaves Clock nil
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: machine.Now()}, watchdog.Config{
		Store: &watchdog.Memory{},
		Budget: watchdog.Budget{
			Idle:    10 * time.Minute,
			Ladders: watchdog.Ladders{Idle: []watchdog.DirectiveKind{watchdog.DirectiveRetry, watchdog.DirectiveUnstuck}},
		},
		Clock: machine, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	for wd.Context().Err() == nil {
		machine.Add(10*time.Minute + time.Second) // a phase that hangs
		for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
			switch d.Kind {
			case watchdog.DirectiveRetry:
				fmt.Println("do the phase again:", d.Reason, "after", d.Used)
			case watchdog.DirectiveUnstuck:
				fmt.Println("try another way:", d.Reason, "after", d.Used)
			case watchdog.DirectiveCancel:
				fmt.Println("give up:", d.Reason, "on rung", d.Rung)
			}
		}
	}
	// Output:
	// do the phase again: watchdog_idle_exceeded after 10m1s
	// try another way: watchdog_idle_exceeded after 10m1s
	// give up: watchdog_idle_exceeded on rung 3
}

// A subscriber gets each directive as it comes, also while the host is stuck in a phase. Progress puts a ladder back to
// its first rung.
func ExampleWatchdog_Subscribe() {
	machine := watchdogtest.NewMockClock() // a host leaves Clock nil
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: machine.Now()}, watchdog.Config{
		Store: &watchdog.Memory{},
		Budget: watchdog.Budget{
			NoProgress: 30 * time.Minute,
			Ladders:    watchdog.Ladders{NoProgress: []watchdog.DirectiveKind{watchdog.DirectiveUnstuck}},
		},
		Clock: machine, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	unsubscribe := wd.Subscribe(func(d watchdog.Directive) { fmt.Println(d.Kind, "on rung", d.Rung) })
	defer unsubscribe()

	machine.Add(31 * time.Minute)
	wd.Fired() // with a timer, that is without PollOnly, nothing need be called
	wd.Progress()
	machine.Add(31 * time.Minute)
	wd.Fired()
	machine.Add(31 * time.Minute)
	wd.Fired()
	// Output:
	// unstuck on rung 1
	// unstuck on rung 1
	// cancel on rung 2
}

// A ladder that ends in a wait notifies and goes on: once in each stretch of silence, and it never cancels.
func ExampleLadders() {
	machine := watchdogtest.NewMockClock() // a host leaves Clock nil
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: machine.Now()}, watchdog.Config{
		Store: &watchdog.Memory{},
		Budget: watchdog.Budget{Idle: time.Minute, Ladders: watchdog.Ladders{
			Idle: []watchdog.DirectiveKind{watchdog.DirectiveWait}, // a DirectiveCancel after it would end the run
		}},
		Clock: machine, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	for range 2 {
		for range 3 {
			machine.Add(2 * time.Minute)
			if d, asked := wd.Poll(); asked {
				fmt.Println("silent:", d.Kind)
			}
		}
		wd.Activity()
	}
	// Output:
	// silent: wait
	// silent: wait
}
