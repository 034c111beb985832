package config

import (
	"encoding/json"
	"fmt"
	"slices"
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

// Limits returns every setting, in the order of docs/configuration-reference.md, then those that
// were set and are not used, and what is set for each step of a workflow, with the defaults of steps that are set:
// [Config.Step] has them all. A limit that the host changed after Load has its new value and its old source.
func (c *Config) Limits() []Setting {
	var settings []Setting
	for _, k := range keys {
		settings = append(settings, c.setting(k))
	}
	for _, k := range unusedKeys {
		if _, set := c.sources[k.path]; set {
			settings = append(settings, c.setting(k))
		}
	}
	var ofSteps []Setting
	for _, name := range c.Steps() {
		ofSteps = append(ofSteps, c.Step(name).Limits()...)
	}
	return append(settings, slices.DeleteFunc(ofSteps, func(s Setting) bool { return s.Source == (source{}).String() })...)
}

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

// Schema returns a JSON schema (draft 7) of a file, for editors: our blocks with every key, what it is for, what is
// allowed and the default, and the stall blocks of a workflow. It says less than [Parse], which also compares settings
// with each other; what a schema refuses in our blocks, Parse refuses, too.
func Schema() []byte {
	ofSteps := map[string]any{"$ref": "#/definitions/stall"}
	stall := map[string]any{"properties": map[string]any{stallBlock: ofSteps}}
	check := map[string]any{"properties": map[string]any{
		stallBlock: ofSteps, "decision_file": stepKeys.schema(decisionPath),
	}}
	step := map[string]any{"properties": map[string]any{stallBlock: ofSteps, checkBlock: check}}
	blocks := map[string]any{
		defaultsBlock: stall, checkBlock: check, stepsBlock: map[string]any{"additionalProperties": step, "items": step},
	}
	for _, block := range blockNames {
		blocks[block] = allKeys.schema(block)
	}
	text, err := json.MarshalIndent(map[string]any{
		"$schema": "http://json-schema.org/draft-07/schema#", "title": "Limits of runs, commands and sessions",
		"type": []string{"object", "null"}, "properties": blocks,
		"definitions": map[string]any{stallBlock: stepKeys.schema(stallBlock)},
	}, "", " ")
	if err != nil {
		panic(err) // a table that cannot be written is a mistake in the code
	}
	return append(text, '\n')
}

// schema returns the schema of a path: of a setting, of a block, or of what is either. Null is absent.
func (t table) schema(path string) map[string]any {
	forms := []any{map[string]any{"type": "null"}}
	k := t.key(path)
	if k.path != "" {
		forms = append(forms, json.RawMessage(k.kind.schema))
	}
	if t.isBlock(path) {
		forms = append(forms, t.block(path))
	}
	if k.path == "" {
		return map[string]any{"anyOf": forms}
	}
	return map[string]any{
		"anyOf":       forms,
		"description": k.help + " Allowed: " + k.allowed + ". Default: " + k.show(&Config{}) + ".",
	}
}

func (t table) block(path string) map[string]any {
	inner := map[string]any{}
	for _, name := range t.accepted(path) {
		inner[name] = t.schema(path + "." + name)
	}
	return map[string]any{"type": "object", "additionalProperties": false, "properties": inner}
}
