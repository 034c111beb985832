package config

import (
	"time"

	"github.com/seed62658d38/watchdog/notify"
)

// notifyBlock is the block of the webhook, inside of that of the sweeper, whose process delivers as a rule.
const notifyBlock = sweepBlock + ".notify"

// webhookPath is the path of the setting on which the others of its block depend.
const webhookPath = notifyBlock + ".webhook"

// notifyKeys are the settings of the webhook that is told of ends. There is none for the secret: a file of limits is
// read by many.
var notifyKeys = []key{
	{
		block: notifyBlock, name: "webhook", variable: "WATCHDOG_NOTIFY_WEBHOOK", common: true, secret: true,
		allowed: "an address such as https://hooks.example.com/watchdog, http only to this machine, or none",
		kind:    webhook{field: func(c *Config) *string { return &c.Notify.URL }},
	},
	{
		block: notifyBlock, name: "secret_file", variable: "WATCHDOG_NOTIFY_SECRET_FILE", common: true,
		needs: []string{webhookPath}, allowed: "the path of a file with a secret in each line",
		kind: path{field: func(c *Config) *string { return &c.Notify.SecretFile }},
	},
	{
		block: notifyBlock, name: "completes", variable: "WATCHDOG_NOTIFY_COMPLETES", common: true,
		needs: []string{webhookPath}, allowed: "true or false",
		kind: flag{field: func(c *Config) *bool { return &c.Notify.Completes }},
	},
	{
		block: notifyBlock, name: "layers", variable: "WATCHDOG_NOTIFY_LAYERS", common: true,
		needs: []string{webhookPath}, allowed: "true or false",
		kind: flag{field: func(c *Config) *bool { return &c.Notify.Layers }},
	},
	{
		block: notifyBlock, name: "keep_for", variable: "WATCHDOG_NOTIFY_KEEP_FOR_MS", common: true,
		needs: []string{webhookPath}, allowed: allowedPeriod + ", at least " + notify.LeastKeepFor.String(),
		kind: milliseconds{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Notify.KeepFor },
			fallback: notify.DefaultKeepFor,
			least:    notify.LeastKeepFor,
		}}},
	},
}
