package config

import (
	"fmt"
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

// Limits returns every setting, in the order of docs/configuration.md, and then those that were set and are not used. A
// limit that the host changed after Load has its new value and its old source.
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
	return append(settings, c.unusedSettings()...)
}

// String returns one line for each limit, with its value and its source.
func (c *Config) String() string {
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, s := range c.Limits() {
		fmt.Fprintf(table, "%s\t%s\t%s\n", s.Key, s.Value, s.Source)
	}
	table.Flush()
	return text.String()
}
