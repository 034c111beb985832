package config

import "github.com/seed62658d38/watchdog"

const scopesPath = controlsBlock + ".scopes"

const allowedScopes = "a list of what runs share limits with, such as " +
	"[{scope: tenant-7, period: day, zone: Europe/Berlin, spend: {cost: 100 EUR}}]"

// scopesKeys is the one setting of all scopes.
var scopesKeys = []key{
	{block: controlsBlock, name: "scopes", allowed: allowedScopes, kind: scopes{}},
}

// scopeKeys are the settings of a scope beside its limits, which are those of the spend block.
var scopeKeys = []key{
	{
		block: scopesPath, name: "scope", allowed: "a name of at most 255 characters such as tenant-7",
		kind: label{field: func(c *Config) *string { return &c.shared.Scope }},
	},
	{
		block: scopesPath, name: "period", allowed: "hour, day or month; absent means for ever",
		kind: choice[watchdog.Period]{
			field: func(c *Config) *watchdog.Period { return &c.shared.Period }, what: "a period",
			known: []watchdog.Period{watchdog.PeriodHour, watchdog.PeriodDay, watchdog.PeriodMonth},
		},
	},
	{
		block: scopesPath, name: "zone",
		allowed: "the IANA name of a time zone such as Europe/Berlin; absent means UTC",
		kind:    zone{label{field: func(c *Config) *string { return &c.shared.Zone }}},
	},
}
