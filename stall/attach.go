package stall

import (
	"context"
	"log/slog"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/handle"
)

var discard = slog.New(slog.DiscardHandler)

// inForce is the valid config without all that watches the command if it is disabled, or the run in ctx is.
func (c Config) inForce(ctx context.Context) Config {
	if outer := handle.Of(ctx); outer != nil && outer.Settings().Disabled {
		c.Disabled = true
	}
	if c.Disabled {
		c.WallClock, c.NoOutput, c.Probe, c.Terminal, c.Artifacts, c.Tail = 0, 0, nil, nil, "", nil
	}
	return c
}

// attach makes the command's run: a layer of the run in ctx, or else a run of its own. Inside is a run that is guarded.
func (c *Config) attach(ctx context.Context) (w *watchdog.Watchdog, inside bool, err error) {
	budget := watchdog.Budget{WallClock: c.WallClock}
	if outer := watchdog.FromContext(ctx); outer != nil {
		if c.Store != nil || c.RunID != "" && c.RunID != outer.ID() {
			return nil, true, invalid("Store or RunID is set, but the command is a layer of run %s, the run of its context; "+
				"leave both empty", outer.ID())
		}
		w, err = outer.Layer(c.Step, budget)
		return w, !handle.Of(ctx).Settings().Disabled, err
	}
	run := watchdog.Run{ID: c.Step}
	if c.RunID != "" {
		run.ID, run.Parent = c.RunID+"/"+c.Step, c.RunID
	}
	logger := c.Logger
	if c.WallClock == 0 {
		budget.WallClock = watchdog.NoLimit
		logger = discard // of what ends the command the result tells
	}
	w, err = watchdog.Config{
		Disabled: c.Disabled, Store: c.Store, Budget: budget, RecordTimeout: c.RecordTimeout, Logger: logger,
	}.Begin(handle.Fresh{Context: ctx}, run)
	return w, false, err
}
