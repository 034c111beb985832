package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/byhand"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/signame"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/stall"
)

// A runKeeper keeps the row of a run while its command runs.
type runKeeper struct {
	*session.Keeper
	stop   func() error // returns what could not be written
	ending atomic.Pointer[session.Escalation]
}

// startKeeper starts what keeps the row of a run that began at a time.
func startKeeper(cfg session.KeeperConfig, command *stall.Config, began time.Time) (*runKeeper, error) {
	cfg.RecordTimeout = cmp.Or(command.RecordTimeout, cfg.RecordTimeout)
	cfg.Logger = slog.New(slog.DiscardHandler) // the end says what is missing in the row
	cfg.RunThreshold = func(string) time.Duration { return silenceOf(command) }
	k := &runKeeper{}
	cfg.RunState = func(w *watchdog.Watchdog, state *session.State) {
		showLimits(state, command, began.Sub(w.StartedAt()))
		state.Escalation = k.ending.Load()
	}
	var err error
	if k.Keeper, err = session.NewKeeper(cfg); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	k.stop = func() error { cancel(); return <-ended }
	return k, nil
}

// signalled has the row of a run say how far the end of its command is.
func (k *runKeeper) signalled(runID string, e stall.Escalation) {
	said := session.Escalation{Signal: signame.Name(e.Signal), SentAt: event.Truncate(e.At)}
	if e.Next != 0 {
		said.Next, said.NextAt = signame.Name(e.Next), event.Truncate(e.NextAt)
	}
	k.ending.Store(&said)
	k.Refresh(runID)
}

// end writes what the row does not say yet. It returns an error if that cannot be done. A nil keeper has no row.
func (k *runKeeper) end() error {
	if k == nil {
		return nil
	}
	if err := k.stop(); err != nil {
		return fmt.Errorf("the run's row among the sessions could not be written, and says that it runs until a sweeper "+
			"looks at it: %w", err)
	}
	return nil
}

// live reports whether the row does not say yet how the run ended.
func (k *runKeeper) live() bool { return k != nil && k.Live() > 0 }

// endsSilence reports whether the command is ended when it prints nothing for some time.
func endsSilence(command *stall.Config) bool {
	return command.NoOutput > 0 && command.OnStall != stall.ActionIgnore && !command.Disabled
}

// endingTime is how long a command can take to be ended, besides its graces, and to have that recorded.
const endingTime = time.Minute

// silenceOf is how long a sweeper lets the run be silent while this program lives: until the command was ended here. A
// run whose command may be silent for ever gives no sign of life, and so is not silent at all.
func silenceOf(command *stall.Config) time.Duration {
	if !endsSilence(command) {
		return 0
	}
	ending := endingTime
	if len(command.Grace) == 0 {
		ending += stall.DefaultInterruptGrace + stall.DefaultTerminateGrace
	}
	for _, step := range command.Grace {
		ending += step.Grace
	}
	return command.NoOutput + ending
}

// showLimits puts the limits of the command into the row of its run, whose window began that much before the command.
func showLimits(state *session.State, command *stall.Config, before time.Duration) {
	if command.WallClock > 0 {
		state.WallClock, state.WarnAt = (before + command.WallClock).Seconds(), []float64{}
	}
	if endsSilence(command) {
		state.Idle = command.NoOutput.Seconds()
	}
}

// refuseLive returns an error for a run that another process runs. Where that process may have been killed, it waits
// until that is certain.
func (p Program) refuseLive(ctx context.Context, common *Common, db stores.Database, id string) error {
	row, err := byhand.Live(ctx, db, id, func(host string, most time.Duration) {
		if !common.JSON {
			p.say(fmt.Sprintf("run %s may be live on host %s: finding out takes at most %v", term.Plain(id), term.Plain(host),
				most))
		}
	})
	if err != nil || row == nil {
		return err
	}
	return fmt.Errorf("run %q is live: host %q has it (attempt %d); use another --id, or end it there", id, row.Host,
		row.Attempt)
}
