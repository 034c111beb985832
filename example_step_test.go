package watchdog_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
)

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
