package watchdog_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
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

// Two hundred edits of different files are left alone. An agent that goes round in a circle after them is asked to try
// something else, and ended when it does not: its tools answer the same again, but for how long they took.
func ExampleWatchdog_Step() {
	wd, err := watchdog.New(context.Background(), watchdog.Run{}, watchdog.Config{
		Budget: watchdog.Budget{Ladders: watchdog.Ladders{
			Loop: []watchdog.DirectiveKind{watchdog.DirectiveUnstuck, watchdog.DirectiveCancel},
		}},
		PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()

	for file := range 200 {
		input := fmt.Appendf(nil, `{"path":"file_%d.go","replace":"Size","by":"Length"}`, file)
		wd.Step(loop.Step{Tool: "edit", Class: loop.Change, Input: input, Outcome: []byte("ok")})
	}
	tools := []string{"grep", "read_log", "go_build"}
	for turn := 1; wd.Context().Err() == nil; turn++ {
		took := fmt.Appendf(nil, `{"found":"the same","took":"0.%ds"}`, 20+turn)
		wd.Step(loop.Step{Tool: tools[turn%3], Class: loop.Look, Outcome: took})
		for d, ok := wd.Poll(); ok; d, ok = wd.Poll() {
			fmt.Printf("turn %d: %s, %s\n", turn, d.Kind, d.Reason)
		}
	}
	// Output:
	// turn 9: unstuck, watchdog_loop_detected
	// turn 15: cancel, watchdog_loop_detected
}
