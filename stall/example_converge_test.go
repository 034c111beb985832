//go:build unix

package stall_test

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
	"github.com/seed62658d38/watchdog/stall/converge"
)

// A wait for a resource that never appears prints all the time, so that silence cannot end it. A probe sees that
// nothing changes, and package converge has other instructions for each attempt. Elsewhere the probe is kubectl get -o
// json, or a program that says what is missing.
func ExampleProbe_converge() {
	tracker, err := converge.New(converge.Config{Stages: []converge.Stage{
		{Name: "wait", After: 1, Instructions: "It may be slow. Wait once more."},
		{Name: "create", After: 1, Instructions: "Nobody creates it. Create it, and do not wait before you have."},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	const missing = `{"class": "stalled", "digest": "missing", "fingerprints": ["k8s/crd/missing:widgets"]}`
	for attempt := 1; ; attempt++ {
		wait := exec.Command("sh", "-c", "while echo waiting; do sleep 0.1; done")
		_, err := stall.Run(context.Background(), wait, stall.Config{
			Step: fmt.Sprintf("attempt-%d", attempt), Store: &watchdog.Memory{},
			Probe: &stall.Probe{
				Command: []string{"echo", missing}, Interval: 20 * time.Millisecond, StallThreshold: 3,
			},
		})
		var stalled *stall.Stalled
		if !errors.As(err, &stalled) {
			fmt.Println("ready:", err)
			return
		}
		decision, err := tracker.Observe(stalled.Trip.Fingerprints)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(attempt, stalled.Trip.Kind, decision.Advice)
		if decision.Advice == converge.GiveUp {
			return
		}
		fmt.Println(" ", decision.Stage.Instructions)
	}
	// Output:
	// 1 no_progress move
	//   Nobody creates it. Create it, and do not wait before you have.
	// 2 no_progress give_up
}
