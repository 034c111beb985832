package config

import (
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// keeperBlock is the block of the keeper, inside of that of the sweeper whose threshold it keeps to.
const keeperBlock = sweepBlock + ".keeper"

// The paths of settings on which others depend.
const (
	keeperThresholdPath = keeperBlock + ".threshold"
	pacePath            = keeperBlock + ".pace"
)

// keeperKeys are the settings of the keeper of the rows that sweepers look at.
var keeperKeys = []key{
	{
		block: keeperBlock, name: "threshold", variable: "WATCHDOG_KEEPER_THRESHOLD_MS", common: true,
		allowed: allowedPeriod,
		kind: milliseconds{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Keeper.Threshold },
			fallback: session.DefaultThreshold,
			nonzero:  "does not say whether a session is stalled at once or never",
		}}},
	},
	{
		block: keeperBlock, name: "promise", variable: "WATCHDOG_KEEPER_PROMISE_MS", common: true,
		allowed: allowedPeriod + ", at least " + session.ShortestPromise.String() +
			" and at most " + session.LongestPromise.String(),
		kind: milliseconds{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Keeper.Promise },
			fallback: session.DefaultPromise,
			least:    session.ShortestPromise, most: session.LongestPromise,
		}}},
	},
	{
		block: keeperBlock, name: "pace", variable: "WATCHDOG_KEEPER_PACE_MS", common: true,
		allowed: allowedPeriod,
		kind: milliseconds{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Keeper.Pace },
			fallback: session.DefaultPace,
			nonzero:  "does not say whether rows are written without a pause or never",
		}}},
	},
	{
		block: keeperBlock, name: "poll", variable: "WATCHDOG_KEEPER_POLL_MS", common: true,
		allowed: allowedPeriod,
		kind: milliseconds{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Keeper.Poll },
			fallback: session.DefaultPoll,
			nonzero:  "does not say whether cancels are looked for without a pause or never",
		}}},
	},
	{
		block: keeperBlock, name: "host", variable: "WATCHDOG_KEEPER_HOST", common: true,
		allowed: "a name of at most 255 characters such as worker-7",
		kind:    label{field: func(c *Config) *string { return &c.Keeper.Host }, absent: "machine's"},
	},
}
