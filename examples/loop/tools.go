package main

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A toolbox replaces tools and a person: each call waits for a given time.
type toolbox struct{ tool, person time.Duration }

// instant is the shortest time of a tool call or an approval.
const instant = 100 * time.Millisecond

// call runs a tool under a hold with the budget's cap: the tool may be silent until then.
func (t toolbox) call(ctx context.Context, name string, say say) error {
	say("tool: %s", name)
	return expectSilence(ctx, "tool: "+name, watchdog.HoldLimit{}, t.tool)
}

// approve waits for a person under a hold without a cap: only the wall clock ends it.
func (t toolbox) approve(ctx context.Context, what string, say say) error {
	say("a person is asked: %s?", what)
	err := expectSilence(ctx, "approval", watchdog.HoldLimit{Cap: watchdog.NoLimit}, t.person)
	if err == nil {
		say("approved")
	}
	return err
}

// expectSilence waits under a hold and reports progress at its end.
func expectSilence(ctx context.Context, key string, limit watchdog.HoldLimit, length time.Duration) error {
	wd := watchdog.FromContext(ctx)
	wd.Note(key)
	err := wd.During(ctx, key, limit, func(ctx context.Context) error { return wait(ctx, max(length, instant)) })
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
	wd.Progress()
	return nil
}

// wait waits, or returns the cause of the context's end.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
