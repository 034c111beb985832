package bound_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/watchdogtest"
)

// A tick that takes longer than it may. Its result is kept, for the host to judge. The mock clock makes it slow.
func ExampleDo() {
	machine := watchdogtest.NewMockClock()
	tick := bound.Call{Limit: 30 * time.Minute, Clock: machine}

	out := bound.Do(context.Background(), tick, func(ctx context.Context) (int, error) {
		machine.Add(30*time.Minute + 10*time.Second)
		<-ctx.Done() // the limit has ended it
		return 12, ctx.Err()
	})

	fmt.Println(out.Layer, "after", out.Elapsed, "with", out.Result, "rows")
	var overrun *bound.Overrun
	fmt.Println(errors.As(out.Err, &overrun), errors.Is(out.Err, context.DeadlineExceeded))
	// Output:
	// soft after 30m10s with 12 rows
	// true true
}

// A call that ignores its context does not take its caller with it. It is listed until it ends; its key is free at
// once.
func ExampleCalls() {
	var calls bound.Calls
	tick := bound.Call{
		Key: "tick", Calls: &calls,
		Limit: time.Millisecond, Grace: time.Millisecond, // minutes and seconds, elsewhere
		Release: func() { fmt.Println("gave the lease back") },
		Logger:  slog.New(slog.DiscardHandler),
	}
	hang := make(chan struct{})

	out := bound.Do(context.Background(), tick, func(ctx context.Context) (string, error) {
		bound.Note(ctx, "fetch the page")
		<-hang
		return "too late", nil
	})
	fmt.Printf("%s, abandoned: %v, result: %q\n", out.Layer, out.Abandoned, out.Result)

	tick.Limit, tick.Grace = 0, 0 // the defaults
	again := bound.Do(context.Background(), tick, func(context.Context) (string, error) { return "in time", nil })
	fmt.Println(again.Layer, again.Result)

	for _, call := range calls.Abandoned() {
		fmt.Println("still running:", call.Key, "in:", call.Note)
	}
	close(hang)
	// Output:
	// gave the lease back
	// hard, abandoned: true, result: ""
	// none in time
	// still running: tick in: fetch the page
}

// A second call under a key that is in flight is refused.
func ExampleKeyInUse() {
	tick := bound.Call{Key: "tick", Calls: &bound.Calls{}, Clock: watchdogtest.NewMockClock()}
	bound.Do(context.Background(), tick, func(ctx context.Context) (string, error) {
		second := bound.Do(ctx, tick, func(context.Context) (string, error) { return "never begun", nil })
		fmt.Println(second.Err)
		return "", nil
	})
	// Output:
	// call "tick" was not begun: key in use: a call "tick" is in flight since 1970-01-01T00:00:00Z; wait for it or let this one pass
}
