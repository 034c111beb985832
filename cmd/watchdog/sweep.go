package main

import (
	"context"
	"errors"
	"os/signal"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/sweep"
)

type sweepCmd struct {
	notifyFlags

	Once   bool `help:"Have one pass and exit. It takes about three promises of a host, half a minute, if one has died."`
	DryRun bool `name:"dry-run" help:"Say what would be cancelled, and write nothing."`
}

// Help is the rest of the command's help.
func (sweepCmd) Help() string {
	return `Sweeps the store until it is ended: finds the sessions that have stalled, whoever
ran them, and cancels them. The limits are those of the sweep block of --config
and of the environment; watchdog check shows them. Any number of sweepers can
sweep one store. SIGINT and SIGTERM end it after the sessions in hand. With a
webhook it delivers notices as watchdog notify does.

It stops no agents and resumes no sessions: a host does that in package sweep.

Examples:
  watchdog sweep --store postgres://app@db/agents --config watchdog.yaml
  watchdog sweep --store sqlite:state/events.db --once --dry-run`
}

// Run sweeps the store.
func (c sweepCmd) Run(ctx context.Context, p Program, common *Common, model *kong.Application) error {
	limits, err := common.sweeping(model, c.DryRun, c.variables()...)
	if err != nil {
		return p.failEach(err)
	}
	use := p.use(common, limits, limits.Sweep.DryRun)
	return common.withStore(ctx, use, func(db stores.Database) error {
		sender, err := p.senderOf(db, use, limits, common)
		if err != nil {
			return err
		}
		s, err := p.sweeper(db, limits, common.JSON)
		if err != nil {
			return err
		}
		if c.Once {
			_, err := s.Sweep(ctx)
			return errors.Join(err, tellBriefly(sender))
		}
		p.note(common, limits.WorstTime())
		ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		defer beside(ctx, sender)()
		return s.Run(ctx)
	})
}

// sweeping reads the limits of a sweeper.
func (c *Common) sweeping(model *kong.Application, dryRun bool, flags ...string) (*config.Config, error) {
	limits, err := c.limits(model, flags...)
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

// use is what a sweeper does with the store. It says so if nobody is told for it.
func (p Program) use(common *Common, limits *config.Config, nothing bool) stores.Use {
	switch notices := limits.Notify.URL != ""; {
	case !nothing:
		return stores.UseFor(notices)
	case notices:
		p.note(common, "the webhook is not told: nothing is written, and nothing delivered")
	}
	return stores.Reading
}

// senderOf makes the sender of a sweeper, if notices are written.
func (p Program) senderOf(db stores.Database, use stores.Use, limits *config.Config, common *Common) (*notify.Sender, error) {
	if use != stores.Notifying {
		return nil, nil
	}
	return p.sender(db, webhookOf(limits), common.JSON)
}

// sweeper makes the sweeper, which reports to standard output, and to those besides, and logs to standard error.
func (p Program) sweeper(
	db stores.Database, limits *config.Config, asJSON bool, besides ...func(sweep.Pass),
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
	if cfg.Alert.Within > 0 && limits.Notify.URL != "" {
		put := notify.Alert(db, cfg.Alert.Within, cfg.Logger)
		cfg.Alert.Func = func(ctx context.Context, cancels int) {
			reporter.alert(ctx, cancels)
			put(ctx, cancels)
		}
	}
	return sweep.New(db, db, cfg)
}

// shutdownTimeout is how long requests that are being answered have when a server ends.
const shutdownTimeout = 5 * time.Second
