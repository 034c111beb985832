package converge_test

import (
	"encoding/json"
	"fmt"

	"github.com/seed62658d38/watchdog/stall/converge"
)

// A loop that keeps ending with the same problems gets other instructions, and in the end it is ended.
func Example() {
	tracker, err := converge.New(converge.Config{Stages: []converge.Stage{
		{Name: "retry", After: 2, Instructions: "Find out why the resource is missing."},
		{Name: "change approach", After: 1, Instructions: "Waiting does not help. Install what is missing first."},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	for iteration := 1; ; iteration++ {
		fingerprints := []string{"stall/no_progress", "k8s/crd/missing:widgets.example.com"} // of this iteration
		decision, err := tracker.Observe(fingerprints)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(iteration, decision.Advice, "-", decision.Stage.Name)
		if decision.Advice == converge.GiveUp {
			break
		}
		if decision.Advice == converge.Move {
			fmt.Print(decision.Text())
		}
	}
	// Output:
	// 1 continue - retry
	// 2 move - change approach
	// The last 2 iterations ended with the same 2 problems:
	// - k8s/crd/missing:widgets.example.com
	// - stall/no_progress
	// Stage: change approach
	// Waiting does not help. Install what is missing first.
	// 3 give_up - change approach
}

// With Memory, the tracker also finds a loop that repairs one thing by breaking another.
func ExampleConfig_backAndForth() {
	tracker, err := converge.New(converge.Config{
		Stages: []converge.Stage{{Name: "retry", After: 4}},
		Memory: 2,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, fingerprint := range []string{
		"lint/unused", "build/undefined", "lint/unused", "build/undefined", "lint/unused",
	} {
		decision, err := tracker.Observe([]string{fingerprint})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d %s %q\n", decision.InRow, decision.Advice, decision.StopReason())
	}
	// Output:
	// 1 continue ""
	// 1 continue ""
	// 2 continue ""
	// 3 continue ""
	// 4 give_up "oscillation_detected"
}

// A host stores the tracker's state, and the restored tracker continues from it.
func ExampleRestore() {
	config := converge.Config{}
	tracker, err := converge.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := tracker.Observe([]string{"stall/no_output"}); err != nil {
		fmt.Println(err)
		return
	}
	stored, err := json.Marshal(tracker.State())
	if err != nil {
		fmt.Println(err)
		return
	}

	var state converge.State
	if err := json.Unmarshal(stored, &state); err != nil {
		fmt.Println(err)
		return
	}
	restored, err := converge.Restore(config, state)
	if err != nil {
		fmt.Println(err)
		return
	}
	decision, err := restored.Observe([]string{"stall/no_output"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(decision.Advice, "-", decision.Stage.Name)
	// Output: move - change approach
}
