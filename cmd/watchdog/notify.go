package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/stores"
	"github.com/seed62658d38/watchdog/cmd/watchdog/internal/term"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
)

type notifyCmd struct {
	notifyFlags

	Test   bool `help:"Send one test notice now, past the store, and say what was answered."`
	Follow bool `help:"Go on until it is ended: look at the store every ten seconds."`
}

// Help is the rest of the command's help.
func (notifyCmd) Help() string {
	return `Delivers what is due: each stop of a run, each cancel and each alert of a sweeper
is a signed POST to the webhook, of a small JSON object without any content of the
run. The webhook is --webhook, or sweep.notify.webhook of the configuration, and
its secret is in $WATCHDOG_NOTIFY_SECRET or a file. watchdog check shows it.

A process puts a notice into the store if it has the webhook, too: watchdog run,
complete, sweep and serve, and hosts that open their store with Outbox. Something
has to deliver: sweep and serve do, run tries it at its end for a few seconds, and
this command is for where none of them lives. Several can do it at once.

The exit status is 0 if all was delivered, and 125 if not: what was not is tried
again, by the next that delivers, for seven days as nothing else is configured.

Examples:
  watchdog notify --test --webhook https://hooks.example.com/watchdog
  watchdog notify --store sqlite:runs.db --config watchdog.yaml
  watchdog notify --follow --store postgres://app@db/agents`
}

// Run delivers, or tests.
func (c notifyCmd) Run(ctx context.Context, p Program, common *Common, model *kong.Application) error {
	if c.Test && c.Follow {
		return errors.New("--test sends one notice, and --follow goes on; write one of them")
	}
	limits, err := common.limits(model, c.variables()...)
	if err != nil {
		return p.failEach(err)
	}
	cfg := webhookOf(limits)
	if cfg.URL == "" {
		return errors.New("no webhook is named; write --webhook https://..., or sweep.notify.webhook in the configuration")
	}
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if c.Test {
		return c.test(ctx, p, common, cfg)
	}
	return common.withStore(ctx, stores.Notifying, func(db stores.Database) error {
		sender, err := p.sender(db, cfg, common.JSON)
		if err != nil {
			return err
		}
		if c.Follow {
			p.note(common, "notices go to "+term.Plain(sender.Host())+"; press Ctrl-C to end")
			return sender.Run(ctx)
		}
		return c.once(ctx, p, common, sender)
	})
}

// A testReport is what came of a test as JSON.
type testReport struct {
	Host   string `json:"host"`
	Status int    `json:"status,omitempty"`
	Taken  bool   `json:"taken"`
	Error  string `json:"error,omitempty"`
}

func (c notifyCmd) test(ctx context.Context, p Program, common *Common, cfg notify.Config) error {
	none := &session.Memory{} // it is not asked
	sender, err := p.sender(none, cfg, common.JSON)
	if err != nil {
		return err
	}
	status, err := sender.Test(ctx)
	if common.JSON {
		r := testReport{Host: sender.Host(), Status: status, Taken: err == nil, Error: textOf(err)}
		return p.printReport(r, err)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.Stdout, "the webhook at %s took a test notice, with %d %s\n", term.Plain(sender.Host()), status,
		http.StatusText(status))
	return err
}

// A deliveryReport is what became of notices as JSON.
type deliveryReport struct {
	Delivered int    `json:"delivered"`
	Delayed   int    `json:"delayed"`
	Dropped   int    `json:"dropped"`
	Unwanted  int    `json:"unwanted"`
	Error     string `json:"error,omitempty"`
}

func (c notifyCmd) once(ctx context.Context, p Program, common *Common, sender *notify.Sender) error {
	d, err := sender.Deliver(ctx)
	if common.JSON {
		r := deliveryReport{d.Delivered, d.Delayed, d.Dropped, d.Unwanted, textOf(err)}
		return p.printReport(r, err)
	}
	_, line := fmt.Fprintf(p.Stdout, "%d delivered, %d to be tried again, %d given up, %d not wanted\n", d.Delivered,
		d.Delayed, d.Dropped, d.Unwanted)
	return errors.Join(err, line)
}

// printReport prints what came of something, and returns its error as an exit status.
func (p Program) printReport(report any, err error) error {
	if err != nil {
		err = exitStatus(exitError)
	}
	return errors.Join(json.NewEncoder(p.Stdout).Encode(report), err)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
