package config

import (
	"regexp"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// The blocks of the stall sentinel.
const (
	stallBlock   = "stall"
	probeBlock   = stallBlock + ".probe"
	alsoEndBlock = stallBlock + ".also_end"
)

// innerBlocks are the blocks inside of the stall block. Each has a command, which may be a secret.
var innerBlocks = []string{probeBlock, alsoEndBlock}

// The paths of stall settings on which others depend.
const (
	noOutputPath       = stallBlock + ".no_output_timeout"
	commandPath        = probeBlock + ".command"
	onProbeErrorPath   = probeBlock + ".on_probe_error"
	patternsPath       = stallBlock + ".terminal_patterns"
	interruptGracePath = stallBlock + ".interrupt_grace"
	terminateGracePath = stallBlock + ".terminate_grace"
	firstSignalPath    = stallBlock + ".first_signal"
	alsoEndPath        = alsoEndBlock + ".command"
)

// The allowed values of several stall keys.
const (
	allowedLength = "a length of time such as 30s, 5m or 1h30m"
	allowedAction = "interrupt, fail or ignore"
)

// signals are the paths of what can make a sentinel fire.
var signals = []string{noOutputPath, commandPath, patternsPath}

var actions = []stall.TripAction{stall.ActionInterrupt, stall.ActionFail, stall.ActionIgnore}

// stallKeys are the settings of the stall sentinel. The tail is not among them: it needs a func that redacts.
var stallKeys = []key{
	{
		block: stallBlock, name: "no_output_timeout", variable: "WATCHDOG_STALL_NO_OUTPUT_TIMEOUT",
		allowed: allowedLength + ", or 0 for no limit",
		kind:    length{seconds{field: func(c *Config) *time.Duration { return &c.Stall.NoOutput }}},
	},
	{
		block: stallBlock, name: "activity_source", variable: "WATCHDOG_STALL_ACTIVITY_SOURCE", needs: []string{noOutputPath},
		allowed: "output, stdout or stderr",
		kind: choice[stall.ActivitySource]{
			field:    func(c *Config) *stall.ActivitySource { return &c.Stall.ActivitySource },
			what:     "an output",
			known:    []stall.ActivitySource{stall.ActivityAny, stall.ActivityStdout, stall.ActivityStderr},
			fallback: stall.ActivityAny,
		},
	},
	{
		block: probeBlock, name: "command", common: true, secret: true,
		allowed: "a list of the program and its arguments such as [kubectl, get, pods, -o, json], or a text for sh -c",
		kind:    command{field: func(c *Config) *[]string { return &c.probe().Command }},
	},
	{
		block: probeBlock, name: "interval", variable: "WATCHDOG_STALL_PROBE_INTERVAL",
		needs: []string{commandPath}, common: true,
		allowed: allowedLength,
		kind: length{seconds{
			field:    func(c *Config) *time.Duration { return &c.probe().Interval },
			fallback: stall.DefaultProbeInterval,
			nonzero:  "does not say whether the probe runs without a pause or never",
		}},
	},
	{
		block: probeBlock, name: "timeout", variable: "WATCHDOG_STALL_PROBE_TIMEOUT",
		needs: []string{commandPath}, common: true,
		allowed: allowedLength,
		kind: length{seconds{
			field:    func(c *Config) *time.Duration { return &c.probe().Timeout },
			fallback: stall.DefaultProbeTimeout,
			nonzero:  "does not say whether a probe is ended at once or never",
		}},
	},
	{
		block: probeBlock, name: "require_zero_exit", variable: "WATCHDOG_STALL_PROBE_REQUIRE_ZERO_EXIT",
		needs:   []string{commandPath},
		allowed: "true or false",
		kind:    flag{field: func(c *Config) *bool { return &c.probe().AnyExit }, inverted: true},
	},
	{
		block: probeBlock, name: "on_probe_error", variable: "WATCHDOG_STALL_PROBE_ON_PROBE_ERROR",
		needs:   []string{commandPath},
		allowed: "ignore, stall or terminal",
		kind: choice[stall.ProbeError]{
			field: func(c *Config) *stall.ProbeError { return &c.probe().OnError },
			what:  "a meaning of errors", known: []stall.ProbeError{stall.ErrorIgnored, stall.ErrorStall, stall.ErrorTerminal},
			fallback: stall.ErrorIgnored, offWord: stall.ErrorIgnored,
		},
	},
	{
		block: probeBlock, name: "probe_error_threshold", variable: "WATCHDOG_STALL_PROBE_PROBE_ERROR_THRESHOLD",
		needs:   []string{onProbeErrorPath},
		allowed: "a whole number from 1 to 1000000",
		kind: count[int]{
			field: func(c *Config) *int { return &c.probe().ErrorThreshold }, fallback: stall.DefaultProbeErrorThreshold,
			least: 1,
		},
	},
	{
		block: stallBlock, name: "stall_threshold", variable: "WATCHDOG_STALL_STALL_THRESHOLD", needs: []string{commandPath},
		allowed: "a whole number from 2 to 1000000",
		kind: count[int]{
			field: func(c *Config) *int { return &c.probe().StallThreshold }, fallback: stall.DefaultStallThreshold,
			least: 2,
		},
	},
	{
		block: stallBlock, name: "terminal_patterns",
		allowed: "a list of different regular expressions of Go such as ['^fatal: ', 'out of memory']",
		kind:    patterns{field: func(c *Config) *[]*regexp.Regexp { return &c.Stall.Terminal }},
	},
	{
		block: stallBlock, name: "on_stall", variable: "WATCHDOG_STALL_ON_STALL", needs: []string{noOutputPath, commandPath},
		allowed: allowedAction,
		kind: choice[stall.TripAction]{
			field: func(c *Config) *stall.TripAction { return &c.Stall.OnStall },
			what:  "an action", known: actions, fallback: stall.ActionInterrupt,
		},
	},
	{
		block: stallBlock, name: "on_terminal", variable: "WATCHDOG_STALL_ON_TERMINAL",
		needs:   []string{commandPath, patternsPath},
		allowed: allowedAction,
		kind: choice[stall.TripAction]{
			field: func(c *Config) *stall.TripAction { return &c.Stall.OnTerminal },
			what:  "an action", known: actions, fallback: stall.ActionInterrupt,
		},
	},
	{ // The graces have another use: a command can also be ended from outside.
		block: stallBlock, name: "interrupt_grace", variable: "WATCHDOG_STALL_INTERRUPT_GRACE",
		needs: signals, independent: true,
		allowed: allowedLength + ", or 0 for none",
		kind: grace{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.graces.interrupt },
			fallback: stall.DefaultInterruptGrace,
			zero:     watchdog.None,
		}}},
	},
	{
		block: stallBlock, name: "terminate_grace", variable: "WATCHDOG_STALL_TERMINATE_GRACE",
		needs: signals, independent: true,
		allowed: allowedLength + ", or 0 for none",
		kind: grace{length{seconds{
			field:    func(c *Config) *time.Duration { return &c.graces.terminate },
			fallback: stall.DefaultTerminateGrace,
			zero:     watchdog.None,
		}}},
	},
	{ // So has this.
		block: stallBlock, name: "first_signal", variable: "WATCHDOG_STALL_FIRST_SIGNAL",
		needs: signals, independent: true,
		allowed: "a signal such as SIGINT, SIGTERM or SIGQUIT",
		kind:    firstSignal{},
	},
	{ // This has another use, as the graces have.
		block: alsoEndBlock, name: "command", common: true, secret: true, needs: signals, independent: true,
		allowed: "a list of the program and its arguments such as [docker, rm, --force, job-17], or a text for sh -c",
		kind:    command{field: func(c *Config) *[]string { return &c.alsoEnd().Command }},
	},
	{
		block: alsoEndBlock, name: "timeout", variable: "WATCHDOG_STALL_ALSO_END_TIMEOUT",
		needs: []string{alsoEndPath}, common: true,
		allowed: allowedLength,
		kind: length{seconds{
			field:    func(c *Config) *time.Duration { return &c.alsoEnd().Timeout },
			fallback: stall.DefaultAlsoEndTimeout,
			nonzero:  "does not say whether the command is ended at once or never",
		}},
	},
	{ // This has another use: it is for commands that end by themselves.
		block: stallBlock, name: "keep_background", variable: "WATCHDOG_STALL_KEEP_BACKGROUND",
		needs: signals, independent: true,
		allowed: "true or false",
		kind:    flag{field: func(c *Config) *bool { return &c.Stall.KeepBackground }},
	},
	{
		block: stallBlock, name: "fingerprint_prefix", variable: "WATCHDOG_STALL_FINGERPRINT_PREFIX", needs: signals,
		allowed: "at most 100 letters, digits and characters of ._:/@=+- without a slash at the beginning or end, " +
			"such as ci/build",
		kind: prefix{field: func(c *Config) *string { return &c.Stall.FingerprintPrefix }},
	},
}
