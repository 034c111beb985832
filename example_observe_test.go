package watchdog_test

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
)

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
