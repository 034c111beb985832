package replay_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/benbjohnson/clock"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/replay"
)

// A run leaves a trace, which says what other limits would have done to it.
func ExampleRun() {
	machine := clock.NewMock() // a host leaves Clock nil
	var trace []watchdog.Signal
	wd, err := watchdog.New(context.Background(), watchdog.Run{ID: "session-1", StartedAt: machine.Now()}, watchdog.Config{
		Store:    &watchdog.Memory{},
		Budget:   watchdog.Budget{Idle: 15 * time.Minute},
		OnSignal: func(s watchdog.Signal) { trace = append(trace, s) }, // a host writes it to a file, as JSON
		Clock:    machine, PollOnly: true, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, pause := range []time.Duration{2 * time.Minute, 9 * time.Minute, 4 * time.Minute} {
		machine.Add(pause)
		wd.Activity()
	}
	wd.Close()

	for _, idle := range []time.Duration{15 * time.Minute, 8 * time.Minute, 3 * time.Minute} {
		decisions, err := replay.Run(watchdog.Budget{Idle: idle}, trace, false)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("limit:", idle, "decisions:", len(decisions))
		for _, d := range decisions {
			fmt.Println(d.Kind, "for", d.Reason, "after", d.At)
		}
	}
	// Output:
	// limit: 15m0s decisions: 0
	// limit: 8m0s decisions: 1
	// cancel for watchdog_idle_exceeded after 10m0.000000001s
	// limit: 3m0s decisions: 1
	// cancel for watchdog_idle_exceeded after 5m0.000000001s
}
