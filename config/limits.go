package config

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A Setting is one limit in force.
type Setting struct {
	// Key is the block and the name in a file, such as runtime_controls.warn_at.
	Key string
	// Variable is the environment variable that overrides the file. It is empty if only a file can set the limit.
	Variable string
	// Allowed describes the allowed values.
	Allowed string
	// Help says in a sentence what the limit is for.
	Help string
	// Value is the value in force, for people: a duration such as 4h0m0s, fractions such as 0.5, 0.8, words such as
	// retry, cancel, or off. A long list is shortened; a command is its program and the number of its arguments.
	Value string
	// Source is where the value came from: "default", the file and line, or "environment" and the variable, which may
	// be the one that left the setting without effect.
	Source string
}

// Limits returns every setting, in the order of docs/configuration-reference.md, then the limits of each scope,
// those that were set and are not used, and what is set for each step of a workflow, with the defaults of steps that
// are set: [Config.Step] has them all. A limit that the host changed after Load has its new value and its old source.
func (c *Config) Limits() []Setting {
	var settings []Setting
	for _, k := range keys {
		settings = append(settings, c.setting(k))
	}
	settings = append(settings, c.setOfScopes()...)
	for _, k := range unusedKeys {
		if _, set := c.sources[k.path]; set {
			settings = append(settings, c.setting(k))
		}
	}
	return append(settings, c.setOfSteps()...)
}

// setting returns what is in force of a key.
func (c *Config) setting(k key) Setting {
	return Setting{
		Key: k.path, Variable: c.named(k.variable), Allowed: k.allowed, Help: k.help, Value: k.show(c),
		Source: c.sources[k.path].String(),
	}
}

// origins lists the source of every setting that is not the default.
func (c *Config) origins() string {
	var set []string
	for _, k := range keys {
		if from, ok := c.sources[k.path]; ok {
			set = append(set, fmt.Sprintf("%s is from %s", k.path, from))
		}
	}
	return strings.Join(append(set, "everything else is the default"), ", ")
}

// String returns one line for each limit, with its value and its source, and then the line of [Config.WorstTime].
func (c *Config) String() string { return printed(c.Limits()) + c.WorstTime() + "\n" }

func printed(settings []Setting) string {
	var text strings.Builder
	lines := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, s := range settings {
		fmt.Fprintf(lines, "%s\t%s\t%s\n", s.Key, s.Value, s.Source)
	}
	lines.Flush()
	return text.String()
}

// manySessions is how many sessions a large host has: see [Config.WorstTime].
const manySessions = 10_000

// WorstTime says, in one line for people, how long it takes at worst from the last sign of life of a session to its
// cancel, for one session and for the last of 10,000 that only look stalled, all at once. It is what
// [sweep.Config.WorstTime] returns for Sweep and Keeper, rounded up to seconds; "never" stands for no limit. What the
// host adds, such as a StopHook, counts once it is there.
func (c *Config) WorstTime() string {
	one, last := c.Sweep.WorstTime(c.Keeper, 1), c.Sweep.WorstTime(c.Keeper, manySessions)
	return fmt.Sprintf("worst time from the last sign of life to the cancel: %s; for the last of 10,000 sessions: %s",
		showWorst(one), showWorst(last))
}

func showWorst(d time.Duration) string {
	if d >= watchdog.NoLimit-time.Second {
		return "never"
	}
	return (d + time.Second - 1).Truncate(time.Second).String()
}
