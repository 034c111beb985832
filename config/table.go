package config

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/bound"
	"github.com/seed62658d38/watchdog/session"
	"github.com/seed62658d38/watchdog/sweep"
)

// The paths of settings that the code names.
const (
	disabledPath    = controlsBlock + ".disabled"
	wallClockPath   = controlsBlock + ".session_wall_clock_seconds"
	safetyPath      = controlsBlock + ".safety_timeout_seconds"
	noProgressPath  = controlsBlock + ".no_progress_timeout_seconds"
	idlePath        = controlsBlock + ".idle_timeout_seconds"
	fromFirstPath   = controlsBlock + ".from_first_sign"
	tickPath        = controlsBlock + ".max_tick_duration_minutes"
	gracePath       = controlsBlock + ".tick_grace_seconds"
	costPath        = spendBlock + ".cost"
	reserveCostPath = spendBlock + ".reserve.cost"
	spendWarnPath   = spendBlock + ".warn_at"
)

// The table has all settings: keys those that are read, and unusedKeys what is accepted and not used. A new setting
// is a new row; the file, the environment, the errors, the output, the reference and the schema follow.
var (
	keys       = complete(controlKeys, spendKeys, runKeys, stallKeys, sweepKeys)
	unusedKeys = complete(table{
		{path: controlsBlock + ".mcp_tool_timeout_seconds", unused: true},
		{path: controlsBlock + ".watchdog_poll_seconds", unused: true},
	})
	allKeys = slices.Concat(keys, unusedKeys)
)

// complete derives what a row leaves to its path and its kind.
func complete(parts ...table) table {
	all := slices.Concat(parts...)
	for i := range all {
		k := &all[i]
		k.allowed = cmp.Or(k.allowed, k.allows)
		if k.other != "" {
			k.otherPath = k.block() + "." + k.other
		}
		if !k.noVariable {
			k.variable = cmp.Or(k.variable, variableName(k.path)+k.ending)
		}
		if k.unused {
			k.set = func(*Config, value) *invalidValue { return nil }
			k.show = func(*Config) string { return "not used" }
			k.off = func(*Config) bool { return false }
			k.allowed, k.schema, k.help = "anything", "{}", "accepted and not used."
		}
	}
	return all
}

// variableName returns what a path is called in the environment, without the prefix.
func variableName(path string) string {
	path = strings.TrimPrefix(strings.TrimPrefix(path, controlsBlock+"."), sweepBlock+".")
	return strings.ToUpper(strings.ReplaceAll(path, ".", "_"))
}

var controlKeys = table{
	{path: disabledPath, synonyms: []string{"off", "enabled"}, help: "switches all guards off at once.",
		kind: flag(func(c *Config) *bool { return &c.Disabled }, false)},
	{path: wallClockPath, allowed: "a number of seconds such as 14400 or 0.5, or 0 for no limit",
		help: "how long a window of the run may last in real time, across restarts.",
		kind: seconds(func(c *Config) *time.Duration { return &c.Budget.WallClock },
			span{fallback: watchdog.DefaultWallClock, zero: watchdog.NoLimit})},
	{path: controlsBlock + ".warn_at", needs: []string{wallClockPath},
		help: "the fractions of the wall clock at which the run is warned, at most 100.",
		kind: fractions(func(c *Config) *[]float64 { return &c.Budget.WarnAt }, watchdog.DefaultWarnAt)},
	{path: controlsBlock + ".reserve_seconds", needs: []string{wallClockPath},
		allowed: "a number of seconds less than the wall clock, such as 60 or 0.5, or 0 for none",
		help:    "the part of the wall clock that is kept for returning what the run has.",
		kind:    seconds(func(c *Config) *time.Duration { return &c.Budget.Reserve }, span{})},
	{path: safetyPath, other: "generation_safety_timeout_seconds",
		help: "how long the run may last from this attach, whatever happens.",
		kind: seconds(func(c *Config) *time.Duration { return &c.Budget.Safety }, span{none: "no limit"})},
	{path: noProgressPath, other: "generation_no_progress_timeout_seconds", within: []string{wallClockPath, safetyPath},
		help: "how long the run may go on without getting anywhere.",
		kind: seconds(func(c *Config) *time.Duration { return &c.Budget.NoProgress }, span{none: "no limit"})},
	{path: idlePath, other: "generation_idle_timeout_seconds",
		within: []string{wallClockPath, safetyPath, noProgressPath}, help: "how long the run may give no sign of life.",
		kind: seconds(func(c *Config) *time.Duration { return &c.Budget.Idle }, span{none: "no limit"})},
	{path: controlsBlock + ".hold_timeout_seconds", within: []string{wallClockPath, safetyPath},
		help: "the cap of a hold that brings none of its own.",
		kind: seconds(func(c *Config) *time.Duration { return &c.Budget.Hold }, span{none: "no cap"})},
	{path: fromFirstPath, needs: []string{idlePath, noProgressPath},
		help: "idle and no progress begin at the first sign of life instead of the attach.",
		kind: flag(func(c *Config) *bool { return &c.Budget.FromFirstSign }, false)},
	{path: controlsBlock + ".first_sign_timeout_seconds", needs: []string{fromFirstPath},
		within: []string{wallClockPath, safetyPath}, help: "how long the run may take to give its first sign of life.",
		kind: seconds(func(c *Config) *time.Duration { return &c.Budget.FirstSign }, span{none: "no limit"})},
}

// A counted is what [watchdog.Spend] limits, but for the calls of one tool: the name of its key, its field there, the
// ladder of its trips, and what is counted.
type counted struct{ name, field, limit, help string }

var counts = []counted{
	{"input_tokens", "InputTokens", "tokens", "tokens that may be sent to a model"},
	{"output_tokens", "OutputTokens", "tokens", "tokens that a model may return"},
	{"tokens", "Tokens", "tokens", "tokens in all"},
	{"cost", "Cost", "cost", "money that may be spent"},
	{"requests", "Requests", "requests", "requests to a model"},
	{"turns", "Turns", "turns", "turns of the agent"},
	{"tool_calls", "ToolCalls", "tool_calls", "calls of tools"},
	{"call_input", "CallInput", "call_input", "tokens that one call may send"},
	{"errors", "Errors", "errors", "errors in a row"},
	{"retries", "Retries", "errors", "retries in a row"},
}

// spendTable returns the rows of each count: its limit, and the part of it that is kept. One that does not add up is of
// one run and has no such part.
func spendTable() table {
	var limits, kept table
	tools := key{path: spendBlock + ".tools", help: "calls of each tool, by its name.",
		kind: toolCalls(func(c *Config) *map[string]int64 { return &c.Budget.Spend.Tools })}
	warnAt := key{path: spendWarnPath, needs: []string{tools.path},
		help: "the fractions of each counted limit at which the run is warned; 0.8 where one is limited.",
		kind: spendWarnings(fractions(func(c *Config) *[]float64 { return &c.Budget.Spend.WarnAt }, watchdog.DefaultWarnAt))}
	for _, of := range counts {
		limit := func(c *Config) *int64 { return fieldOf[int64](&c.Budget.Spend, of.field) }
		reserve := func(c *Config) *int64 { return fieldOf[int64](&c.Budget.Spend.Reserve, of.field) }
		adds := reserve(&Config{}) != nil
		l := key{path: spendBlock + "." + of.name, help: of.help + ".", kind: quantity(limit)}
		r := key{
			path: spendBlock + ".reserve." + of.name, needs: []string{l.path}, kind: quantity(reserve),
			allowed: "a whole number less than the limit, such as 5000, or 0 for none",
			help:    "the part of " + of.name + " that is kept for wrapping up.",
		}
		if l.path == costPath {
			l.kind = money(func(c *Config) *int64 { return &c.Budget.Spend.Cost.Micros },
				func(c *Config) *string { return &c.Budget.Spend.Cost.Currency })
			r.kind = money(reserve, func(c *Config) *string { return &c.reserveCurrency })
			r.allowed = "an amount of money less than the limit, with its currency, such as 0.50 EUR, or 0 for none"
		}
		warnAt.needs = append(warnAt.needs, l.path)
		if limits = append(limits, l); adds {
			kept = append(kept, r)
		}
	}
	return slices.Concat(limits, table{tools}, kept, table{warnAt})
}

// spendKeys are the limits that are counted. Their names are those of the events.
var spendKeys = spendTable()

// ladderKey is the row of what the trips of a limit ask for. One that needs nothing may be for a limit that is not in
// this file: of a hold, or one that the host sets.
func ladderKey(name string, field func(*Config) *[]watchdog.DirectiveKind, needs ...string) key {
	return key{
		path: controlsBlock + ".ladders." + name, needs: needs, kind: ladder(field),
		help: "what the trips of " + name + " ask for, one after the other.",
	}
}

// countLadders returns the rows of the ladders of counts. That of a limit that does not add up needs one of its counts.
func countLadders() (ladders table) {
	for _, of := range counts {
		if of.name != of.limit {
			continue
		}
		k := ladderKey(of.limit, func(c *Config) *[]watchdog.DirectiveKind {
			return fieldOf[[]watchdog.DirectiveKind](&c.Budget.Ladders, of.field)
		})
		for _, other := range counts {
			if other.limit == of.limit && fieldOf[int64](&watchdog.Totals{}, other.field) == nil {
				k.needs = append(k.needs, spendBlock+"."+other.name)
			}
		}
		ladders = append(ladders, k)
	}
	return ladders
}

var runKeys = slices.Concat(table{
	ladderKey("idle", func(c *Config) *[]watchdog.DirectiveKind { return &c.Budget.Ladders.Idle }),
	ladderKey("no_progress", func(c *Config) *[]watchdog.DirectiveKind { return &c.Budget.Ladders.NoProgress },
		noProgressPath),
	ladderKey("hold", func(c *Config) *[]watchdog.DirectiveKind { return &c.Budget.Ladders.Hold }),
}, countLadders(), table{
	{path: controlsBlock + ".events.material", help: "the host's own kinds of event that are progress.",
		kind: events(func(c *Config) *[]string { return &c.Kinds.Material }, watchdog.ClassMaterial)},
	{path: controlsBlock + ".events.activity", help: "those that are a sign of life, and no progress.",
		kind: events(func(c *Config) *[]string { return &c.Kinds.Activity }, watchdog.ClassActivity)},
	{path: controlsBlock + ".events.ignored", help: "those that are neither.",
		kind: events(func(c *Config) *[]string { return &c.Kinds.Ignored }, watchdog.ClassIgnored)},
	{path: controlsBlock + ".events.unknown", help: "what a kind in no list is.",
		kind: choice(func(c *Config) *string { return &c.Kinds.Unknown }, "a class", watchdog.ClassIgnored, "",
			watchdog.ClassMaterial, watchdog.ClassActivity, watchdog.ClassIgnored)},
	{path: tickPath, help: "how long one bounded call may take.",
		kind: minutes(func(c *Config) *time.Duration { return &c.Tick.Limit }, span{fallback: bound.DefaultTick})},
	{path: gracePath, allowed: "a number of seconds more than 0 and at most the tick itself, such as 30 or 0.5",
		help: "how long a bounded call then has to return.",
		kind: seconds(func(c *Config) *time.Duration { return &c.Tick.Grace },
			span{fallback: bound.DefaultGrace,
				nonzero: "does not say whether a call that does not return is abandoned at once or never"})},
})

// The paths of settings of the sweep block that the code names.
const (
	enabledPath     = sweepBlock + ".enabled"
	stalledPath     = sweepBlock + ".stalled_threshold"
	alertWithinPath = sweepBlock + ".alert_within"
	pacePath        = sweepBlock + ".keeper.pace"
)

// delay is the kind of a length of the sweeper where 0 is a valid one.
func delay(field func(*Config) *time.Duration, fallback, zero time.Duration) kind {
	return milliseconds(field, span{fallback: fallback, zero: zero, none: "none"})
}

// sweepKeys are the settings of the sweeper, and of the keeper of the rows that it looks at. They are valid while the
// sweeper is not enabled: it may be off for a while.
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
}
