package config

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/sweep"
)

// sweepBlock is the sweeper's block.
const sweepBlock = "sweep"

// The paths of settings on which others depend.
const (
	stalledPath     = sweepBlock + ".stalled_threshold"
	alertWithinPath = sweepBlock + ".alert_within"
)

// allowedPeriod describes the lengths of the sweeper.
const allowedPeriod = allowedLength + ", in the environment a whole number of milliseconds such as 300000"

// sweepKeys are the settings of the sweeper. They are valid while it is not enabled: it may be off for a while.
var sweepKeys = []key{
	{
		block: sweepBlock, name: "enabled", variable: "WATCHDOG_ENABLED", common: true,
		allowed: "true or false",
		kind:    flag{field: func(c *Config) *bool { return &c.Sweep.Disabled }, inverted: true},
	},
	{
		block: sweepBlock, name: "dry_run", variable: "WATCHDOG_DRY_RUN", common: true,
		allowed: "true or false",
		kind:    flag{field: func(c *Config) *bool { return &c.Sweep.DryRun }},
	},
	{
		block: sweepBlock, name: "interval", variable: "WATCHDOG_INTERVAL_MS", common: true,
		allowed: allowedPeriod,
		kind: milliseconds{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Sweep.Interval },
			fallback: sweep.DefaultInterval,
			nonzero:  "does not say whether passes come without a pause or never",
		}}},
	},
	{
		block: sweepBlock, name: "stalled_threshold", variable: "WATCHDOG_STALLED_THRESHOLD_MS",
		allowed: allowedPeriod + ", or 0 for none but those of sessions",
		kind: milliseconds{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Sweep.StalledThreshold },
			fallback: sweep.DefaultStalledThreshold,
			zero:     watchdog.NoLimit,
		}}},
	},
	{
		block: sweepBlock, name: "min_age", variable: "WATCHDOG_MIN_AGE_MS", common: true,
		allowed: allowedPeriod + ", or 0 for none",
		kind: delay{milliseconds{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Sweep.MinAge },
			fallback: sweep.DefaultMinAge,
			zero:     watchdog.None,
		}}}},
	},
	{
		block: sweepBlock, name: "startup_delay", variable: "WATCHDOG_STARTUP_DELAY_MS", common: true,
		allowed: allowedPeriod + ", or 0 for none",
		kind: delay{milliseconds{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Sweep.StartupDelay },
			fallback: sweep.DefaultStartupDelay,
			zero:     watchdog.None,
		}}}},
	},
	{
		block: sweepBlock, name: "max_cancellations_per_run", variable: "WATCHDOG_MAX_CANCELLATIONS",
		allowed: "a whole number from 1 to 1000000",
		kind: count[int64]{
			field:    func(c *Config) *int64 { return &c.Sweep.MaxCancellationsPerRun },
			fallback: sweep.DefaultMaxCancellations, least: 1,
		},
	},
	{
		block: sweepBlock, name: "max_cancellations_per_minute", variable: "WATCHDOG_MAX_CANCELLATIONS_PER_MINUTE",
		allowed: "a whole number up to 1000000, or 0 for no rate",
		kind:    count[int64]{field: func(c *Config) *int64 { return &c.Sweep.MaxCancellationsPerMinute }},
	},
	{
		block: sweepBlock, name: "grace", variable: "WATCHDOG_GRACE_MS", common: true,
		allowed: allowedPeriod + ", or 0 for none",
		kind:    delay{milliseconds{length{seconds{field: func(c *Config) *time.Duration { return &c.Sweep.Grace }}}}},
	},
	{
		block: sweepBlock, name: "stop_timeout", variable: "WATCHDOG_STOP_TIMEOUT_MS", common: true,
		allowed: allowedPeriod,
		kind: milliseconds{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.Sweep.StopTimeout },
			fallback: sweep.DefaultStopTimeout,
			nonzero:  "does not say whether a hook is ended at once or never",
		}}},
	},
	{
		block: sweepBlock, name: "max_resumes", variable: "WATCHDOG_MAX_RESUMES",
		allowed: "a whole number up to 1000000, or 0 for none",
		kind:    count[int]{field: func(c *Config) *int { return &c.Sweep.Resume.Max }},
	},
	{
		block: sweepBlock, name: "resume_tries", variable: "WATCHDOG_RESUME_TRIES",
		allowed: "a whole number from 1 to 1000000",
		kind: count[int]{
			field: func(c *Config) *int { return &c.Sweep.Resume.Tries }, fallback: sweep.DefaultResumeTries, least: 1,
		},
	},
	{
		block: sweepBlock, name: "alert_within", variable: "WATCHDOG_ALERT_WITHIN_MS",
		allowed: allowedPeriod + ", or 0 for no alert",
		kind:    milliseconds{length{seconds{field: func(c *Config) *time.Duration { return &c.Sweep.Alert.Within }}}},
	},
	{
		block: sweepBlock, name: "alert_count", variable: "WATCHDOG_ALERT_COUNT", needs: []string{alertWithinPath},
		common:  true,
		allowed: "a whole number up to 1000000, or 0 for an alert of each cancel",
		kind:    count[int]{field: func(c *Config) *int { return &c.Sweep.Alert.Count }},
	},
}
