//go:build unix

package stall_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/exec"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// A command that prints nothing is ended, and the error says why.
func ExampleRun() {
	store := &watchdog.Memory{}
	result, err := stall.Run(context.Background(), exec.Command("sleep", "600"), stall.Config{
		Step: "build", RunID: "s-1", Store: store, NoOutput: 200 * time.Millisecond,
		Logger: slog.New(slog.DiscardHandler),
	})
	fmt.Println(errors.Is(err, watchdog.CommandNoOutput), result.EndedBy, result.Trip.Fingerprints)
	events, _ := store.Read(context.Background(), watchdog.AggregateType, "s-1/build")
	fmt.Println(len(events), events[0].Type)
	// Output:
	// true interrupt [stall/no_output:never]
	// 1 runtime.watchdog.cancel
}

// A probe tells that a command gets nowhere, however much that prints; what it names is what the next attempt is compared with.
func ExampleProbe() {
	_, err := stall.Run(context.Background(), exec.Command("sleep", "600"), stall.Config{
		Step: "wait", Store: &watchdog.Memory{}, Logger: slog.New(slog.DiscardHandler),
		Probe: &stall.Probe{Command: []string{"echo", `{"class": "terminal", "fingerprints": ["k8s/crd/missing:widgets"]}`}},
	})
	var stalled *stall.Stalled
	if errors.As(err, &stalled) {
		fmt.Println(stalled.Trip.Kind, stalled.Trip.Fingerprints)
	}
	// Output: terminal [k8s/crd/missing:widgets]
}
