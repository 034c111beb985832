package config

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/sweep"
)

// swept is the block of the sweeper.
const swept = "sweep"

// allowedPeriod is what a length of the sweeper may be.
const allowedPeriod = allowedLength + ", in the environment a whole number of milliseconds such as 300000"

// sweepKeys are the settings of the sweeper. They stay as they are while it is not enabled: a sweeper is switched off for a time.
var sweepKeys = []key{
	{
		block: swept, name: "enabled", variable: "WATCHDOG_ENABLED", common: true,
		allowed: "true or false",
		kind:    flag{field: func(c *Config) *bool { return &c.Sweep.Disabled }, inverted: true},
	},
	{
		block: swept, name: "interval", variable: "WATCHDOG_INTERVAL_MS", common: true,
		allowed: allowedPeriod,
		kind: milliseconds{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Sweep.Interval },
			standard: sweep.DefaultInterval,
			nonzero:  "does not say whether passes come without a pause or never",
		}}},
	},
	{
		block: swept, name: "stalled_threshold", variable: "WATCHDOG_STALLED_THRESHOLD_MS",
		allowed: allowedPeriod + ", or 0 for none but those of sessions",
		kind: milliseconds{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Sweep.StalledThreshold },
			standard: sweep.DefaultStalledThreshold,
			zero:     watchdog.NoLimit,
		}}},
	},
	{
		block: swept, name: "min_age", variable: "WATCHDOG_MIN_AGE_MS", common: true,
		allowed: allowedPeriod + ", or 0 for none",
		kind: delay{milliseconds{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Sweep.MinAge },
			standard: sweep.DefaultMinAge,
			zero:     watchdog.None,
		}}}},
	},
	{
		block: swept, name: "startup_delay", variable: "WATCHDOG_STARTUP_DELAY_MS", common: true,
		allowed: allowedPeriod + ", or 0 for none",
		kind: delay{milliseconds{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Sweep.StartupDelay },
			standard: sweep.DefaultStartupDelay,
			zero:     watchdog.None,
		}}}},
	},
	{
		block: swept, name: "max_cancellations_per_run", variable: "WATCHDOG_MAX_CANCELLATIONS",
		allowed: "a whole number from 1 to 1000000",
		kind: count[int64]{
			field:    func(c *Config) *int64 { return &c.Sweep.MaxCancellationsPerRun },
			standard: sweep.DefaultMaxCancellations, least: 1,
		},
	},
	{
		block: swept, name: "grace", variable: "WATCHDOG_GRACE_MS", common: true,
		allowed: allowedPeriod + ", or 0 for none",
		kind:    delay{milliseconds{length{seconds{field: func(c *Config) *time.Duration { return &c.Sweep.Grace }}}}},
	},
	{
		block: swept, name: "stop_timeout", variable: "WATCHDOG_STOP_TIMEOUT_MS", common: true,
		allowed: allowedPeriod,
		kind: milliseconds{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Sweep.StopTimeout },
			standard: sweep.DefaultStopTimeout,
			nonzero:  "does not say whether a hook is ended at once or never",
		}}},
	},
}
