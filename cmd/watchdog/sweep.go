package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/sweep"
)

type sweepCmd struct {
	Once   bool `help:"Have one pass and exit. It takes about three promises of a host, half a minute, if one has died."`
	DryRun bool `name:"dry-run" help:"Say what would be cancelled, and write nothing."`
}

// Help is the rest of the command's help.
func (sweepCmd) Help() string {
	return `Sweeps the store until it is ended: finds the sessions that have stalled, whoever
ran them, and cancels them. The limits are those of the sweep block of --config
and of the environment; watchdog check shows them. Any number of sweepers can
sweep one store. SIGINT and SIGTERM end it after the sessions in hand.

It stops no agents and resumes no sessions: a host does that in package sweep.

Examples:
  watchdog sweep --store postgres://app@db/agents --config watchdog.yaml
  watchdog sweep --store sqlite:state/events.db --once --dry-run`
}

// Run sweeps the store.
func (c sweepCmd) Run(ctx context.Context, p Program, common *Common, model *kong.Application) error {
	limits, err := common.sweeping(model, c.DryRun)
	if err != nil {
		return p.failEach(err)
	}
	return common.withStore(ctx, limits.Sweep.DryRun, func(db database) error {
		s, err := p.sweeper(db, limits, common.JSON)
		if err != nil {
			return err
		}
		if c.Once {
			_, err := s.Sweep(ctx)
			return err
		}
		p.note(common, limits.WorstTime())
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return s.Run(ctx)
	})
}

// sweeping reads the limits of a sweeper.
func (c *Common) sweeping(model *kong.Application, dryRun bool) (*config.Config, error) {
	limits, err := c.limits(model)
	if err != nil {
		return nil, err
	}
	limits.Sweep.DryRun = limits.Sweep.DryRun || dryRun
	switch {
	case limits.Sweep.Disabled:
		return nil, errors.New("the sweeper is switched off: see sweep.enabled and runtime_controls.disabled in the " +
			"configuration, and WATCHDOG_ENABLED and WATCHDOG_DISABLED")
	case limits.Sweep.Resume.Max > 0:
		return nil, errors.New("sweep.max_resumes is set, and this program starts no sessions: set it to 0 here, and " +
			"resume sessions in a host")
	}
	return limits, nil
}

// withStore opens the store, to read only if that is enough, and closes it after the work.
func (c *Common) withStore(ctx context.Context, readOnly bool, work func(database) error) error {
	open := c.open
	if readOnly {
		open = c.openReader
	}
	db, err := open(ctx)
	if err != nil {
		return err
	}
	return errors.Join(work(db), db.Close())
}

// sweeper makes the sweeper, which reports to standard output, and to those besides, and logs to standard error.
func (p Program) sweeper(
	db database, limits *config.Config, asJSON bool, besides ...func(sweep.Pass),
) (*sweep.Sweeper, error) {
	cfg := limits.Sweep
	reporter := &passReporter{out: p.Stdout, json: asJSON}
	cfg.OnPass = func(pass sweep.Pass) {
		reporter.pass(pass)
		for _, tell := range besides {
			tell(pass)
		}
	}
	if cfg.Alert.Within > 0 {
		cfg.Alert.Func = reporter.alert
	}
	cfg.Logger = p.logger(asJSON)
	return sweep.New(db, db, cfg)
}

// logger logs warnings and errors.
func (p Program) logger(asJSON bool) *slog.Logger {
	options := &slog.HandlerOptions{Level: slog.LevelWarn}
	if asJSON {
		return slog.New(slog.NewJSONHandler(p.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(p.Stderr, options))
}

// note says something on standard error that is for people only.
func (p Program) note(common *Common, text string) {
	if !common.JSON {
		_, _ = fmt.Fprintln(p.Stderr, text)
	}
}

// shutdownTimeout is how long requests that are being answered have when a server ends.
const shutdownTimeout = 5 * time.Second
