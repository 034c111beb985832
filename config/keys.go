package config

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
)

// Our blocks of a file, and the inner ones.
const (
	controlsBlock = "runtime_controls"
	eventsBlock   = controlsBlock + ".events"
)

// The paths of settings on which others depend.
const (
	disabledPath      = controlsBlock + ".disabled"
	wallClockPath     = controlsBlock + ".session_wall_clock_seconds"
	idlePath          = controlsBlock + ".idle_timeout_seconds"
	noProgressPath    = controlsBlock + ".no_progress_timeout_seconds"
	safetyPath        = controlsBlock + ".safety_timeout_seconds"
	fromFirstSignPath = controlsBlock + ".from_first_sign"
	firstSignPath     = controlsBlock + ".first_sign_timeout_seconds"
	tickPath          = controlsBlock + ".max_tick_duration_minutes"
	gracePath         = controlsBlock + ".tick_grace_seconds"
)

// The allowed values of several keys.
const (
	allowedTimeout = "a number of seconds such as 600 or 0.5, or 0 for no limit"
	allowedKinds   = "a list of the host's own kinds of event such as [tool.result, commit], each in one list only"
)

// controlKeys are the settings of a run.
var controlKeys = slices.Concat([]key{
	{
		block: controlsBlock, name: "disabled", variable: "WATCHDOG_DISABLED", synonyms: []string{"off", "enabled"},
		allowed: "true or false",
		kind:    flag{field: func(c *Config) *bool { return &c.Disabled }},
	},
	{
		block: controlsBlock, name: "session_wall_clock_seconds", variable: "WATCHDOG_SESSION_WALL_CLOCK_SECONDS",
		allowed: "a number of seconds such as 14400 or 0.5, or 0 for no limit",
		kind: seconds{
			field:    func(c *Config) *time.Duration { return &c.Budget.WallClock },
			fallback: watchdog.DefaultWallClock,
			zero:     watchdog.NoLimit,
		},
	},
	{
		block: controlsBlock, name: "warn_at", variable: "WATCHDOG_WARN_AT", needs: []string{wallClockPath},
		allowed: "different fractions between 0 and 1, in a file such as [0.5, 0.8], " +
			"in the environment such as 0.5,0.8, or 0 for none",
		kind: fractions{
			field:    func(c *Config) *[]float64 { return &c.Budget.WarnAt },
			fallback: []float64{watchdog.DefaultWarnAt},
		},
	},
	{
		block: controlsBlock, name: "reserve_seconds", variable: "WATCHDOG_RESERVE_SECONDS", needs: []string{wallClockPath},
		allowed: "a number of seconds less than the wall clock, such as 60 or 0.5, or 0 for none",
		kind:    seconds{field: func(c *Config) *time.Duration { return &c.Budget.Reserve }},
	},
	{
		block: controlsBlock, name: "safety_timeout_seconds", variable: "WATCHDOG_SAFETY_TIMEOUT_SECONDS",
		other:   "generation_safety_timeout_seconds",
		allowed: allowedTimeout,
		kind:    seconds{field: func(c *Config) *time.Duration { return &c.Budget.Safety }},
	},
	{
		block: controlsBlock, name: "no_progress_timeout_seconds", variable: "WATCHDOG_NO_PROGRESS_TIMEOUT_SECONDS",
		other:   "generation_no_progress_timeout_seconds",
		within:  []string{wallClockPath, safetyPath},
		allowed: allowedTimeout,
		kind:    seconds{field: func(c *Config) *time.Duration { return &c.Budget.NoProgress }},
	},
	{
		block: controlsBlock, name: "idle_timeout_seconds", variable: "WATCHDOG_IDLE_TIMEOUT_SECONDS",
		other:   "generation_idle_timeout_seconds",
		within:  []string{wallClockPath, safetyPath, noProgressPath},
		allowed: allowedTimeout,
		kind:    seconds{field: func(c *Config) *time.Duration { return &c.Budget.Idle }},
	},
	{
		block: controlsBlock, name: "hold_timeout_seconds", variable: "WATCHDOG_HOLD_TIMEOUT_SECONDS",
		within:  []string{wallClockPath, safetyPath},
		allowed: "a number of seconds such as 600 or 0.5, or 0 for no cap",
		kind:    seconds{field: func(c *Config) *time.Duration { return &c.Budget.Hold }},
	},
	{
		block: controlsBlock, name: "from_first_sign", variable: "WATCHDOG_FROM_FIRST_SIGN",
		needs:   []string{idlePath, noProgressPath},
		allowed: "true or false",
		kind:    flag{field: func(c *Config) *bool { return &c.Budget.FromFirstSign }},
	},
	{
		block: controlsBlock, name: "first_sign_timeout_seconds", variable: "WATCHDOG_FIRST_SIGN_TIMEOUT_SECONDS",
		needs:   []string{fromFirstSignPath},
		within:  []string{wallClockPath, safetyPath},
		allowed: allowedTimeout,
		kind:    seconds{field: func(c *Config) *time.Duration { return &c.Budget.FirstSign }},
	},
}, spendKeys, scopesKeys, loopKeys, ladderKeys, []key{
	{
		block: eventsBlock, name: "material",
		allowed: allowedKinds,
		kind:    eventSet{class: watchdog.ClassMaterial, field: func(c *Config) *[]string { return &c.Kinds.Material }},
	},
	{
		block: eventsBlock, name: "activity",
		allowed: allowedKinds,
		kind:    eventSet{class: watchdog.ClassActivity, field: func(c *Config) *[]string { return &c.Kinds.Activity }},
	},
	{
		block: eventsBlock, name: "ignored",
		allowed: allowedKinds,
		kind:    eventSet{class: watchdog.ClassIgnored, field: func(c *Config) *[]string { return &c.Kinds.Ignored }},
	},
	{
		block: eventsBlock, name: "unknown", variable: "WATCHDOG_EVENTS_UNKNOWN",
		allowed: "material, activity or ignored",
		kind: choice[string]{
			field:    func(c *Config) *string { return &c.Kinds.Unknown },
			what:     "a class",
			known:    []string{watchdog.ClassMaterial, watchdog.ClassActivity, watchdog.ClassIgnored},
			fallback: watchdog.ClassIgnored,
		},
	},
	{
		block: controlsBlock, name: "max_tick_duration_minutes", variable: "WATCHDOG_MAX_TICK_DURATION_MINUTES",
		allowed: "a number of minutes from 1 to 60, such as 30 or 7.5",
		kind:    minutes{field: func(c *Config) *time.Duration { return &c.Tick.Limit }},
	},
	{
		block: controlsBlock, name: "tick_grace_seconds", variable: "WATCHDOG_TICK_GRACE_SECONDS",
		allowed: "a number of seconds more than 0 and at most the tick itself, such as 30 or 0.5",
		kind: seconds{
			field:    func(c *Config) *time.Duration { return &c.Tick.Grace },
			fallback: bound.DefaultGrace,
			nonzero:  "does not say whether a call that does not return is abandoned at once or never",
		},
	},
})
