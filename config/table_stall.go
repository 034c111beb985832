package config

import (
	"regexp"
	"slices"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// The paths of stall settings that the code names.
const (
	noOutputPath       = stallBlock + ".no_output_timeout"
	activityPath       = stallBlock + ".activity_source"
	commandPath        = probeBlock + ".command"
	onProbeErrorPath   = probeBlock + ".on_probe_error"
	patternsPath       = stallBlock + ".terminal_patterns"
	onStallPath        = stallBlock + ".on_stall"
	onTerminalPath     = stallBlock + ".on_terminal"
	interruptGracePath = stallBlock + ".interrupt_grace"
	terminateGracePath = stallBlock + ".terminate_grace"
	firstSignalPath    = stallBlock + ".first_signal"
	alsoEndPath        = alsoEndBlock + ".command"
	prefixPath         = stallBlock + ".fingerprint_prefix"
	probeThresholdPath = probeBlock + ".stall_threshold" // which is gone

	// Those of steps. They are those of the stall block, wherever it stands.
	stepEnabledPath = stallBlock + ".enabled"
	decisionPath    = stallBlock + ".decision_file"
	incompletePath  = stallBlock + ".as_incomplete"
	classPath       = stallBlock + ".error_class"
)

// signals are the paths of what can make a sentinel fire.
var signals = []string{noOutputPath, commandPath, patternsPath}

func action(field func(*Config) *stall.TripAction) kind {
	const usual = stall.ActionInterrupt
	return choice(field, "an action", usual, "", usual, stall.ActionFail, stall.ActionIgnore)
}

// grace is the kind of the time after a signal. 0 is a valid length: the next signal follows at once.
func grace(field func(*Config) *time.Duration, fallback time.Duration) kind {
	return length(field, span{fallback: fallback, zero: watchdog.None, none: "none"})
}

// stallKeys are the settings of the stall sentinel. The tail is not among them: it needs a func that redacts. An
// independent one has another use: a command can also be ended from outside, or end by itself.
var stallKeys = table{
	{path: noOutputPath, help: "how long a command may be silent.",
		kind: length(func(c *Config) *time.Duration { return &c.Stall.NoOutput }, span{none: "no limit"})},
	{path: activityPath, needs: []string{noOutputPath}, help: "which output counts.",
		kind: choice(func(c *Config) *stall.ActivitySource { return &c.Stall.ActivitySource }, "an output",
			stall.ActivityAny, "", stall.ActivityAny, stall.ActivityStdout, stall.ActivityStderr)},
	{path: commandPath, common: true, secret: true,
		help: "a second command, which sees whether the first gets anywhere; its arguments are never shown.",
		kind: command(func(c *Config) *[]string { return &c.probe().Command }, "[kubectl, get, pods, -o, json]")},
	{path: probeBlock + ".interval", needs: []string{commandPath}, common: true, help: "the time between two probes.",
		kind: length(func(c *Config) *time.Duration { return &c.probe().Interval },
			span{fallback: stall.DefaultProbeInterval,
				nonzero: "does not say whether the probe runs without a pause or never"})},
	{path: probeBlock + ".timeout", needs: []string{commandPath}, common: true, help: "how long a probe may take.",
		kind: length(func(c *Config) *time.Duration { return &c.probe().Timeout },
			span{fallback: stall.DefaultProbeTimeout, nonzero: "does not say whether a probe is ended at once or never"})},
	{path: probeBlock + ".require_zero_exit", needs: []string{commandPath},
		help: "whether the exit status of a probe has to be 0.",
		kind: flag(func(c *Config) *bool { return &c.probe().AnyExit }, true)},
	{path: onProbeErrorPath, needs: []string{commandPath}, help: "what it means that probes cannot observe.",
		kind: choice(func(c *Config) *stall.ProbeError { return &c.probe().OnError }, "a meaning of errors",
			stall.ErrorIgnored, stall.ErrorIgnored, stall.ErrorIgnored, stall.ErrorStall, stall.ErrorTerminal)},
	{path: probeBlock + ".probe_error_threshold", needs: []string{onProbeErrorPath}, help: "how many of them in a row.",
		kind: count(func(c *Config) *int { return &c.probe().ErrorThreshold }, stall.DefaultProbeErrorThreshold, 1, "")},
	{path: stallBlock + ".stall_threshold", needs: []string{commandPath},
		help: "how many probes in a row have to see the same.",
		kind: count(func(c *Config) *int { return &c.probe().StallThreshold }, stall.DefaultStallThreshold, 2, "")},
	{path: patternsPath, help: "lines of output after which nothing good can come, at most 100.",
		kind: patterns(func(c *Config) *[]*regexp.Regexp { return &c.Stall.Terminal })},
	{path: onStallPath, needs: []string{noOutputPath, commandPath},
		help: "what is done when silence or a probe says that the command is stuck.",
		kind: action(func(c *Config) *stall.TripAction { return &c.Stall.OnStall })},
	{path: onTerminalPath, needs: []string{commandPath, patternsPath},
		help: "what is done when a pattern or a probe says that it is lost.",
		kind: action(func(c *Config) *stall.TripAction { return &c.Stall.OnTerminal })},
	{path: interruptGracePath, needs: signals, independent: true, help: "the time after the first signal.",
		kind: grace(func(c *Config) *time.Duration { return &c.graces.interrupt }, stall.DefaultInterruptGrace)},
	{path: terminateGracePath, needs: signals, independent: true, help: "the time after SIGTERM.",
		kind: grace(func(c *Config) *time.Duration { return &c.graces.terminate }, stall.DefaultTerminateGrace)},
	{path: firstSignalPath, needs: signals, independent: true, allowed: "a signal such as SIGINT, SIGTERM or SIGQUIT",
		help: "the signal that comes first; SIGTERM and SIGKILL follow.",
		kind: signal(func(c *Config) *syscall.Signal { return &c.graces.signal })},
	{path: alsoEndPath, common: true, secret: true, needs: signals, independent: true,
		help: "a command that ends what the first one has running elsewhere.",
		kind: command(func(c *Config) *[]string { return &c.alsoEnd().Command }, "[docker, rm, --force, job-17]")},
	{path: alsoEndBlock + ".timeout", needs: []string{alsoEndPath}, common: true, help: "how long it may take.",
		kind: length(func(c *Config) *time.Duration { return &c.alsoEnd().Timeout },
			span{fallback: stall.DefaultAlsoEndTimeout, nonzero: "does not say whether the command is ended at once or never"})},
	{path: stallBlock + ".keep_background", needs: signals, independent: true,
		help: "leaves alone what a command that ended by itself left running.",
		kind: flag(func(c *Config) *bool { return &c.Stall.KeepBackground }, false)},
	{path: prefixPath, needs: signals,
		allowed: "at most 100 letters, digits and characters of ._:/@=+- without a slash at the beginning or end, such " +
			"as ci/build", help: "comes before the sentinel's own fingerprints.",
		kind: text(func(c *Config) *string { return &c.Stall.FingerprintPrefix }, "none", prefixProblem)},
}

// The words for the source of activity of a worker, beside those of a command.
const (
	activityWorker stall.ActivitySource = "worker_event"
	activityEvent  stall.ActivitySource = "any_event"
	activityProbe  stall.ActivitySource = "probe_only"
)

const allowedClass = "at most 100 letters, digits, dots, hyphens and underscores, such as RETRYABLE_TRANSIENT"

// stepKeys are the settings of a stall block in a workflow: those of the stall block at the top level and some more.
var stepKeys = complete(table{{
	path: stepEnabledPath, needs: signals, common: true, help: "false switches the sentinel of this step off.",
	kind: flag(func(c *Config) *bool { return &c.Stall.Disabled }, true),
}}, ofStep(stallKeys), table{
	{path: stallBlock + ".capture_stderr", needs: signals, help: "the host should keep the tail of standard error.",
		kind: flag(func(c *Config) *bool { return &c.extras.captureStderr }, false)},
	{path: probeBlock + ".capture_stderr", help: "accepted and not used.",
		kind: notUsed(flag(func(c *Config) *bool { return &c.extras.captureProbe }, false))},
	{path: onStallPath + ".error_class", needs: []string{noOutputPath, commandPath}, common: true,
		also: []string{classPath}, allowed: allowedClass, help: "what the host calls an error of this action.",
		kind: text(func(c *Config) *string { return &c.extras.stallClass }, "none", classProblem)},
	{path: onTerminalPath + ".error_class", needs: []string{commandPath, patternsPath}, common: true,
		also: []string{classPath}, allowed: allowedClass, help: "what the host calls an error of this action.",
		kind: text(func(c *Config) *string { return &c.extras.terminalClass }, "none", classProblem)},
	{path: incompletePath, needs: signals, ofCheck: true,
		also: []string{onStallPath + ".as_incomplete", onTerminalPath + ".as_incomplete"},
		help: `a stall is the answer "incomplete" of a check.`,
		kind: flag(func(c *Config) *bool { return &c.Stall.AsIncomplete }, false)},
	{path: decisionPath, ofCheck: true, common: true, allowed: "a path such as .loop/review.verdict",
		help: "where a completion check writes its decision.",
		kind: text(func(c *Config) *string { return &c.extras.decisionFile }, "none", lineProblem)},
})

// ofStep returns the keys of the stall block as a workflow has them: with what workers do, and lists as prefixes.
func ofStep(top table) table {
	of := slices.Clone(top)
	for i := range of {
		k := &of[i]
		k.noVariable = true
		switch k.path {
		case onStallPath, onTerminalPath:
			k.also = []string{k.path + ".action"}
		case interruptGracePath:
			k.also = []string{stallBlock + ".grace_int"}
		case terminateGracePath:
			k.also = []string{stallBlock + ".grace_term"}
		case activityPath:
			k.kind = choice(func(c *Config) *stall.ActivitySource { return &c.extras.activity }, "an output",
				stall.ActivityAny, "", stall.ActivityAny, stall.ActivityStdout, stall.ActivityStderr,
				activityWorker, activityEvent, activityProbe)
		case prefixPath:
			k.also = []string{onStallPath + ".fingerprint_prefix", onTerminalPath + ".fingerprint_prefix"}
			k.kind = prefixes(k.kind)
			k.allowed += ", or a list such as [phase, build]"
		}
	}
	return of
}

// notUsed is the kind of a flag that is read, so that a file that has it is accepted, and that nothing uses.
func notUsed(k kind) kind {
	show := k.show
	k.show = func(c *Config) string {
		if show(c) == "true" {
			return "not used"
		}
		return show(c)
	}
	return k
}
