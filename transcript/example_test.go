package transcript_test

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/seed62658d38/watchdog/loop"
	"github.com/seed62658d38/watchdog/transcript"
)

// What the rules say of a session that is over: each agent in it has a detector of its own.
func Example() {
	file, err := os.Open("testdata/claude-code.jsonl")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = file.Close() }()

	detectors := map[string]*loop.Detector{}
	r := transcript.NewReader(file)
	for {
		turn, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		if detectors[turn.Agent] == nil {
			detectors[turn.Agent] = &loop.Detector{}
		}
		if v := detectors[turn.Agent].Step(turn.Steps...); v.Advice != loop.Go {
			fmt.Printf("call %d, line %d: %s: %s, %d times\n", turn.First, turn.Line, v.Advice, v.Tool, v.Rounds)
			detectors[turn.Agent].Delivered()
		}
	}
	fmt.Println(r.Coverage().Calls, "calls of", r.Coverage().Format)
	// Output:
	// call 7, line 25: ask: Bash, 3 times
	// call 9, line 29: end: Bash, 5 times
	// 10 calls of Claude Code
}
