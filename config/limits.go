package config

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
)

// A Setting is one limit in force.
type Setting struct {
	// Key is the block and the name in a file, such as runtime_controls.warn_at.
	Key string
	// Variable is the environment variable that overrides the file. It is empty if only a file can set the limit.
	Variable string
	// Allowed describes the allowed values.
	Allowed string
	// Value is the value in force, for people: a duration such as 4h0m0s, fractions such as 0.5, 0.8, words such as
	// retry, cancel, or off. A long list is shortened; a command is its program and the number of its arguments.
	Value string
	// Source is where the value came from: "default", the file and line, or "environment" and the variable, which may
	// be the one that left the setting without effect.
	Source string
}

// Limits returns every setting, in the order of the pages of docs/configuration.md, then the limits of each scope,
// those that were set and are not used, and what is set for each step of a workflow, with the defaults of steps that
// are set: [Config.Step] has them all. A limit that the host changed after Load has its new value and its old source.
func (c *Config) Limits() []Setting {
	settings := make([]Setting, len(keys))
	for i, k := range keys {
		settings[i] = Setting{
			Key:      k.path(),
			Variable: c.variable(k),
			Allowed:  k.allowed,
			Value:    k.kind.show(c),
			Source:   c.sources[k.path()].String(),
		}
	}
	return slices.Concat(settings, c.setOfScopes(), c.unusedSettings(), c.setOfSteps())
}

// String returns one line for each limit, with its value and its source, and then the line of [Config.WorstTime].
func (c *Config) String() string { return table(c.Limits()) + c.WorstTime() + "\n" }

func table(settings []Setting) string {
	var text strings.Builder
	lines := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, s := range settings {
		fmt.Fprintf(lines, "%s\t%s\t%s\n", s.Key, s.Value, s.Source)
	}
	lines.Flush()
	return text.String()
}
