package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/kong"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/config"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
)

// limits reads the configuration file and the environment, in which the variables given, those of flags, win. The
// program's own variables, such as WATCHDOG_STORE, are no limits, and not taken for misspelt ones.
func (c *Common) limits(model *kong.Application, flags ...string) (*config.Config, error) {
	left := ownVariables(model.Node)
	for _, flag := range flags {
		left = append(left, nameOf(flag))
	}
	environment := slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return slices.Contains(left, nameOf(variable))
	})
	limits, err := config.Loader{Environment: append(environment, flags...)}.Load(c.Config)
	var wrong *config.Error
	if errors.As(err, &wrong) && slices.ContainsFunc(flags, func(f string) bool { return nameOf(f) == wrong.Variable }) {
		said := *wrong
		said.Variable, said.Key = "", ""
		return nil, fmt.Errorf("--%s: %w", webhookFlags[wrong.Variable], &said)
	}
	return limits, err
}

func nameOf(variable string) string {
	name, _, _ := strings.Cut(variable, "=")
	return name
}

// ownVariables are the variables that stand for flags of a command and those below it.
func ownVariables(node *kong.Node) (names []string) {
	for _, flag := range node.Flags {
		names = append(names, flag.Envs...)
	}
	for _, child := range node.Children {
		names = append(names, ownVariables(child)...)
	}
	return names
}

// notifyFlags are the flags of commands that put notices into a store, or deliver them.
//
//nolint:lll // a tag cannot be broken
type notifyFlags struct {
	Webhook           string `group:"Who is told" placeholder:"ADDRESS" help:"Tell this https address of each stop. watchdog notify explains it; none for nobody, whatever is configured."`
	WebhookSecretFile string `group:"Who is told" rare:"" placeholder:"FILE" type:"path" help:"A file with the secret that signs, where $$WATCHDOG_NOTIFY_SECRET does not have it."`
}

// secretVariable has the secrets of the webhook, with spaces between them. No flag has: others see the flags of a
// program.
const secretVariable = "WATCHDOG_NOTIFY_SECRET"

// webhookFlags are the flags by the variables that they stand for.
var webhookFlags = map[string]string{
	"WATCHDOG_NOTIFY_WEBHOOK": "webhook", "WATCHDOG_NOTIFY_SECRET_FILE": "webhook-secret-file",
}

// variables are what the flags say, as the configuration reads it.
func (f notifyFlags) variables() (all []string) {
	if f.Webhook != "" {
		all = append(all, "WATCHDOG_NOTIFY_WEBHOOK="+f.Webhook)
	}
	if f.WebhookSecretFile != "" {
		all = append(all, "WATCHDOG_NOTIFY_SECRET_FILE="+f.WebhookSecretFile)
	}
	return all
}

// webhookOf is the webhook of a configuration, with its secrets.
func webhookOf(limits *config.Config) notify.Config {
	cfg := limits.Notify
	cfg.Secrets = strings.Fields(os.Getenv(secretVariable))
	return cfg
}

// An outboxStore is what a sender needs of a store.
type outboxStore interface {
	watchdog.EventStore
	session.Outbox
}

// sender makes the sender, which logs to standard error; nil if there is no webhook.
func (p Program) sender(db outboxStore, cfg notify.Config, asJSON bool) (*notify.Sender, error) {
	if cfg.URL == "" {
		return nil, nil
	}
	if len(cfg.Secrets) == 0 && cfg.SecretFile == "" {
		return nil, fmt.Errorf("the webhook has no secret, and what is not signed can be sent by anybody; "+
			"set %s, or name a file with --webhook-secret-file; one is made with: "+
			`echo "whsec_$(openssl rand -base64 32)"`, secretVariable)
	}
	cfg.Logger = p.logger(asJSON)
	return notify.New(db, db, cfg)
}

// beside has the sender deliver beside other work, until what it returns is called.
func beside(ctx context.Context, sender *notify.Sender) (end func()) {
	if sender == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = sender.Run(ctx) }) // it returns no error
	return func() {
		cancel()
		running.Wait()
	}
}

// brief is how long a run, or a single pass, may take to tell of its end what it can.
const brief = 5 * time.Second

// tellBriefly delivers what can be delivered at once. What remains is for others.
func tellBriefly(sender *notify.Sender) error {
	if sender == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), brief)
	defer cancel()
	if _, err := sender.Deliver(ctx); err != nil {
		return fmt.Errorf("the webhook is not told yet; watchdog notify, serve or sweep tries it again: %w", err)
	}
	return nil
}
