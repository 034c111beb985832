package main

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
)

// A toolbox replaces tools and a person: each call waits for a given time.
type toolbox struct{ tool, person time.Duration }

// A tool is what the host knows of one: its class for package loop, and here also what it finds and how long it takes.
type tool struct {
	class  loop.Class
	finds  string
	length time.Duration
}

var tools = map[string]tool{
	"read_file": {loop.Look, "return s[len(s)]", instant},
	"run_tests": {loop.Look, "all pass", instant},
	"grep":      {loop.Look, "3 matches", instant},
	"read_log":  {loop.Look, "index out of range [3]", instant},
	"go_build":  {loop.Look, "exit status 2", instant},
	"edit_file": {loop.Change, "ok", quick},
}

// The shortest times: of most tool calls and of an approval, and of an edit.
const (
	instant = 100 * time.Millisecond
	quick   = 5 * time.Millisecond
)

// call runs a tool under a hold with the budget's cap: the tool may be silent until then. Its answer is the same in
// each turn, but for white space and for how long the tool says that it took.
func (t toolbox) call(ctx context.Context, name string, turn int) (answer string, err error) {
	called := tools[name]
	err = expectSilence(ctx, "tool: "+name, watchdog.HoldLimit{}, max(t.tool, called.length))
	if called.class == loop.Change {
		return called.finds, err
	}
	return fmt.Sprintf(`{"found": %q,%*s"took": "0.%ds"}`, called.finds, turn%4, "", 20+turn*7%80), err
}

// approve waits for a person under a hold without a cap: only the wall clock ends it.
func (t toolbox) approve(ctx context.Context, what string, say say) error {
	say("a person is asked: %s?", what)
	err := expectSilence(ctx, "approval", watchdog.HoldLimit{Cap: watchdog.NoLimit}, max(t.person, instant))
	if err == nil {
		watchdog.FromContext(ctx).Progress()
		say("approved")
	}
	return err
}

// expectSilence waits under a hold.
func expectSilence(ctx context.Context, key string, limit watchdog.HoldLimit, length time.Duration) error {
	wd := watchdog.FromContext(ctx)
	wd.Note(key)
	err := wd.During(ctx, key, limit, func(ctx context.Context) error { return wait(ctx, length) })
	if err != nil {
		return fmt.Errorf("%s: %w", key, err)
	}
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
