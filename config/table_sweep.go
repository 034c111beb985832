package config

import (
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/notify"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// The paths of settings of the sweep block that the code names.
const (
	enabledPath     = sweepBlock + ".enabled"
	stalledPath     = sweepBlock + ".stalled_threshold"
	alertWithinPath = sweepBlock + ".alert_within"
	pacePath        = sweepBlock + ".keeper.pace"
	webhookPath     = notifyBlock + ".webhook"
)

// delay is the kind of a length of the sweeper where 0 is a valid one.
func delay(field func(*Config) *time.Duration, fallback, zero time.Duration) kind {
	return milliseconds(field, span{fallback: fallback, zero: zero, none: "none"})
}

// sweepKeys are the settings of the sweeper, of the keeper of the rows that it looks at, and of the webhook that is
// told of ends. They are valid while the sweeper is not enabled: it may be off for a while. There is no key for the
// secret of the webhook: a file of limits is read by many.
var sweepKeys = table{
	{path: enabledPath, common: true, help: "false switches the sweeper alone off.",
		kind: flag(func(c *Config) *bool { return &c.Sweep.Disabled }, true)},
	{path: sweepBlock + ".dry_run", common: true, help: "the sweeper only says what it would cancel.",
		kind: flag(func(c *Config) *bool { return &c.Sweep.DryRun }, false)},
	{path: sweepBlock + ".interval", common: true, help: "the time from the end of a pass to the next.",
		kind: milliseconds(func(c *Config) *time.Duration { return &c.Sweep.Interval },
			span{fallback: sweep.DefaultInterval, nonzero: "does not say whether passes come without a pause or never"})},
	{path: stalledPath, help: "how long a session may be without an event, for the sweeper and for the keeper.",
		kind: milliseconds(func(c *Config) *time.Duration { return &c.Sweep.StalledThreshold },
			span{fallback: sweep.DefaultStalledThreshold, zero: watchdog.NoLimit, none: "none but those of sessions"})},
	{path: sweepBlock + ".min_age", common: true, help: "how old a session has to be, at least.",
		kind: delay(func(c *Config) *time.Duration { return &c.Sweep.MinAge }, sweep.DefaultMinAge, watchdog.None)},
	{path: sweepBlock + ".startup_delay", common: true, help: "the time before the first pass.",
		kind: delay(func(c *Config) *time.Duration { return &c.Sweep.StartupDelay }, sweep.DefaultStartupDelay,
			watchdog.None)},
	{path: sweepBlock + ".max_cancellations_per_run", variable: "MAX_CANCELLATIONS",
		help: "how many sessions that only look stalled a pass cancels at most.",
		kind: count(func(c *Config) *int64 { return &c.Sweep.MaxCancellationsPerRun }, sweep.DefaultMaxCancellations, 1, "")},
	{path: sweepBlock + ".max_cancellations_per_minute", help: "makes this a rate: a full pass is followed by the next.",
		kind: count(func(c *Config) *int64 { return &c.Sweep.MaxCancellationsPerMinute }, 0, 0, "no rate")},
	{path: sweepBlock + ".grace", common: true, help: "how long before its cancel a session is warned.",
		kind: delay(func(c *Config) *time.Duration { return &c.Sweep.Grace }, 0, 0)},
	{path: sweepBlock + ".stop_timeout", common: true, help: "bounds the host's hook that stops what works on a session.",
		kind: milliseconds(func(c *Config) *time.Duration { return &c.Sweep.StopTimeout },
			span{fallback: sweep.DefaultStopTimeout, nonzero: "does not say whether a hook is ended at once or never"})},
	{path: sweepBlock + ".max_resumes", help: "how often one run is resumed after a cancel.",
		kind: count(func(c *Config) *int { return &c.Sweep.Resume.Max }, 0, 0, "none")},
	{path: sweepBlock + ".resume_tries", help: "how often the start of a resumed run is tried.",
		kind: count(func(c *Config) *int { return &c.Sweep.Resume.Tries }, sweep.DefaultResumeTries, 1, "")},
	{path: alertWithinPath, help: "the time in which cancels are counted.",
		kind: milliseconds(func(c *Config) *time.Duration { return &c.Sweep.Alert.Within }, span{none: "no alert"})},
	{path: sweepBlock + ".alert_count", needs: []string{alertWithinPath}, common: true,
		help: "the largest number of them that needs no alert.",
		kind: count(func(c *Config) *int { return &c.Sweep.Alert.Count }, 0, 0, "an alert of each cancel")},
	{path: sweepBlock + ".keeper.promise", common: true,
		help: "a process that cannot write to the database for three times as long is taken for dead.",
		kind: milliseconds(func(c *Config) *time.Duration { return &c.Keeper.Promise },
			span{fallback: session.DefaultPromise, least: session.ShortestPromise, most: session.LongestPromise})},
	{path: pacePath, common: true, help: "the time from one look at the runs to the next.",
		kind: milliseconds(func(c *Config) *time.Duration { return &c.Keeper.Pace },
			span{fallback: session.DefaultPace, nonzero: "does not say whether rows are written without a pause or never"})},
	{path: sweepBlock + ".keeper.poll", common: true, help: "the time from one look for cancels to the next.",
		kind: milliseconds(func(c *Config) *time.Duration { return &c.Keeper.Poll },
			span{fallback: session.DefaultPoll,
				nonzero: "does not say whether cancels are looked for without a pause or never"})},
	{path: sweepBlock + ".keeper.host", common: true, help: "names the process in its rows.",
		kind: label(func(c *Config) *string { return &c.Keeper.Host }, "machine's", "worker-7")},
	{path: webhookPath, common: true, secret: true,
		allowed: "an address such as https://hooks.example.com/watchdog, http only to this machine, or none",
		help:    "the webhook that is told of ends and alerts.",
		kind:    webhook(func(c *Config) *string { return &c.Notify.URL })},
	{path: notifyBlock + ".secret_file", common: true, needs: []string{webhookPath},
		allowed: "the path of a file with a secret in each line", help: "the secrets that sign what the webhook is told.",
		kind: text(func(c *Config) *string { return &c.Notify.SecretFile }, "none", unseenProblem)},
	{path: notifyBlock + ".completes", common: true, needs: []string{webhookPath}, help: "tells of complete runs, too.",
		kind: flag(func(c *Config) *bool { return &c.Notify.Completes }, false)},
	{path: notifyBlock + ".layers", common: true, needs: []string{webhookPath},
		help: "tells of the ends of layers, too.", kind: flag(func(c *Config) *bool { return &c.Notify.Layers }, false)},
	{path: notifyBlock + ".keep_for", common: true, needs: []string{webhookPath},
		help: "how long a notice is tried that the receiver does not take.",
		kind: milliseconds(func(c *Config) *time.Duration { return &c.Notify.KeepFor },
			span{fallback: notify.DefaultKeepFor, least: notify.LeastKeepFor})},
}
