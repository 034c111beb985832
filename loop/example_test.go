package loop_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
)

// An agent that searches, reads and gives up in a circle is told in the third round, and ended two rounds after.
func Example() {
	var d loop.Detector
	circle := []loop.Step{
		{Tool: "grep", Class: loop.Look, Input: []byte(`{"pattern":"port","path":"."}`), Outcome: []byte("a.go:3: port")},
		{Tool: "read", Class: loop.Look, Input: []byte(`{"path":"a.go"}`), Outcome: []byte("var port int")},
		{Tool: "run_tests", Class: loop.Look, Outcome: []byte("1 failed in 0.31s")},
	}
	for turn := 1; ; turn++ {
		switch v := d.Step(circle[(turn-1)%3]); v.Advice {
		case loop.Ask:
			fmt.Printf("turn %d: %s: %d rounds of %d turns\n", turn, v.Advice, v.Rounds, v.Period)
			// Put it into the conversation: "You repeat yourself. Say what is missing, or try something else."
			d.Delivered()
		case loop.End:
			fmt.Printf("turn %d: %s\n", turn, v.Advice)
			return
		}
	}
	// Output:
	// turn 9: ask: 3 rounds of 3 turns
	// turn 15: end
}

// A hook that can only stop the run, and is to stop one that sleeps and sleeps.
func ExampleCheck() {
	cfg := loop.Config{Waits: loop.End}
	stop := func(turns [][]loop.Step) bool {
		v, err := loop.Check(turns, cfg)
		return err == nil && v.Advice != loop.Go
	}
	var turns [][]loop.Step
	for !stop(turns) {
		turns = append(turns, []loop.Step{{Tool: "bash", Input: []byte(`{"command":"sleep 1"}`)}})
	}
	fmt.Println("stopped after", len(turns))
	// Output: stopped after 10
}

// A host keeps the detector's state with its own, so that a restart forgets nothing. It tells its model when that
// repeats itself, and cancels the run if it goes on.
func ExampleDetector_MarshalBinary() {
	log := slog.New(slog.DiscardHandler)
	wd, err := watchdog.New(context.Background(), watchdog.Run{}, watchdog.Config{Logger: log})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer wd.Close()
	grep := loop.Step{Tool: "grep", Class: loop.Look, Input: []byte(`{"pattern":"port"}`), Outcome: []byte("nothing")}

	var stored []byte
	for turn := 1; wd.Context().Err() == nil; turn++ { // as if each were in a process of its own
		var d loop.Detector
		if stored != nil {
			if err := d.UnmarshalBinary(stored); err != nil {
				fmt.Println(err) // damaged, or of another version: go on without it
			}
		}
		switch v := d.Step(grep); v.Advice {
		case loop.Ask:
			fmt.Printf("turn %d, to the model: %v\n", turn, v)
			d.Delivered()
		case loop.End:
			stop, err := wd.Cancel(watchdog.Cancellation{Reason: watchdog.LoopDetected})
			if err != nil {
				fmt.Println(err)
				return
			}
			fmt.Printf("turn %d: %s\n", turn, stop.Code)
		}
		stored, _ = d.MarshalBinary() // never fails
	}
	// Output:
	// turn 3, to the model: "grep" was called with the same input and got the same result 3 times in a row; do something else, or say what is missing.
	// turn 5: watchdog_loop_detected
}
