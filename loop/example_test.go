package loop_test

import (
	"fmt"

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

// The host stores the state with its own, so that a restart forgets nothing.
func ExampleDetector_MarshalBinary() {
	step := loop.Step{Tool: "read", Class: loop.Look, Input: []byte(`{"path":"a.go"}`), Outcome: []byte("var port int")}
	var before loop.Detector
	before.Step(step)
	before.Step(step)
	stored, err := before.MarshalBinary()
	if err != nil {
		fmt.Println(err)
		return
	}

	var after loop.Detector
	if err := after.UnmarshalBinary(stored); err != nil {
		fmt.Println(err) // damaged: go on without it
	}
	fmt.Println(after.Step(step).Advice)
	// Output: ask
}
