package config

import (
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// Our blocks of a file, and the inner ones that the code names.
const (
	controlsBlock = "runtime_controls"
	stallBlock    = "stall"
	sweepBlock    = "sweep"

	spendBlock   = controlsBlock + ".spend"
	probeBlock   = stallBlock + ".probe"
	alsoEndBlock = stallBlock + ".also_end"
)

var blockNames = []string{controlsBlock, stallBlock, sweepBlock}

// A key is one setting: a row of the table. A row comes after the rows that it needs or must be below.
type key struct {
	path     string   // the block, or inner blocks, and the name
	other    string   // another name in the same block, and of the variable; it has otherPath
	also     []string // other paths
	variable string   // the environment variable, where the path does not say it
	allowed  string   // describes the allowed values; empty means what the kind says
	help     string   // what it is for, in a sentence
	synonyms []string // what it is also called where it is not read, for errors
	needs    []string // paths of settings, one of which must be on for an effect
	within   []string // paths of limits that it must be shorter than, or it is never exceeded
	kind

	otherPath   string
	independent bool // it has another use too, so it is not disabled when a variable switches off what it needs
	common      bool // other programs use this name too: outside of its block it is taken for theirs
	secret      bool // errors must not show its value
	ofCheck     bool // a setting of a completion check, not of a step
	unused      bool // it is accepted, because files of another system have it, and not used
}

// A kind reads the value of a setting, keeps it in a Config and prints it.
type kind struct {
	split   func(text string) value                // splits a variable, as YAML splits a value; nil for one text
	set     func(c *Config, v value) *invalidValue // keeps the value, or returns what is wrong with it
	show    func(c *Config) string                 // returns the value in force
	off     func(c *Config) bool                   // reports whether the value in force switches the setting off
	disable func(c *Config)                        // switches the setting off; nil for one that needs no other
	length  func(c *Config) time.Duration          // the value in force of a duration

	allows     string // describes the allowed values
	ending     string // of the variable, such as its unit
	noVariable bool   // a variable cannot hold the value
	schema     string // the JSON schema of the value in a file
}

// of is the kind of a setting that is one field, which is one text or number in a file.
func of[T any](field func(*Config) *T, parse func(value) (T, string), show func(T) string, off func(T) bool) kind {
	return ofItems(field, func(v value) (T, *invalidValue) {
		parsed, problem := parse(v)
		return parsed, v.invalid(problem)
	}, show, off)
}

// ofItems is the kind of a setting that is one field, in which an item may be wrong.
func ofItems[T any](
	field func(*Config) *T, parse func(value) (T, *invalidValue), show func(T) string, off func(T) bool,
) kind {
	return kind{
		set: func(c *Config, v value) *invalidValue {
			parsed, invalid := parse(v)
			if invalid == nil {
				*field(c) = parsed
			}
			return invalid
		},
		show:    func(c *Config) string { return show(*field(c)) },
		off:     func(c *Config) bool { return off(*field(c)) },
		disable: func(c *Config) { *field(c) = *new(T) },
	}
}

// fromVariable returns the value of a variable.
func (k kind) fromVariable(text string) value {
	if k.split != nil {
		return k.split(text)
	}
	return fromText(text)
}

func (k key) block() string { return k.path[:strings.LastIndex(k.path, ".")] }
func (k key) name() string  { return k.path[strings.LastIndex(k.path, ".")+1:] }

// allowedText ends the error of a wrong value.
func (k key) allowedText() string { return "; allowed: " + k.allowed }

// is reports whether a path sets the key. It and isBlock are called for every line of a file, and copy no row.
func (k *key) is(path string) bool {
	return path == k.path || slices.Contains(k.also, path) || path == k.otherPath
}

type table []key

// at returns the settings that a path sets: two for one that is of two actions.
func (t table) at(path string) (found []key) {
	for i := range t {
		if t[i].is(path) {
			found = append(found, t[i])
		}
	}
	return found
}

// key returns the first setting of a path, or the zero key.
func (t table) key(path string) key {
	for i := range t {
		if t[i].is(path) {
			return t[i]
		}
	}
	return key{}
}

// names returns the keys and inner blocks of a block, in the order of the table, and then those at other paths.
func (t table) names(block string) []string {
	var paths, others, names []string
	for _, k := range t {
		if !k.unused {
			paths = append(paths, k.path)
		}
		others = append(others, k.also...)
	}
	slices.Sort(others)
	for _, path := range append(paths, others...) {
		inside, ok := strings.CutPrefix(path, block+".")
		name, _, _ := strings.Cut(inside, ".")
		if ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (t table) accepted(block string) []string {
	all := t.names(block)
	for _, k := range t {
		switch {
		case k.block() != block:
		case k.unused:
			all = append(all, k.name())
		case k.other != "":
			all = append(all, k.other)
		}
	}
	return all
}

func (t table) isBlock(path string) bool {
	within := func(p string) bool { return len(p) > len(path) && p[len(path)] == '.' && p[:len(path)] == path }
	for i := range t {
		if within(t[i].path) || slices.ContainsFunc(t[i].also, within) {
			return true
		}
	}
	return false
}

// hides reports whether the value at a path may be the value of a secret key, or meant to be one.
func (t table) hides(path string) bool {
	return slices.ContainsFunc(t, func(k key) bool {
		return k.secret && strings.HasPrefix(k.path+".", path+".")
	})
}

// ours reports whether a mapping under the name of one of the blocks has a setting of it. The name of a setting is
// enough, unless it is a common one; the name of a block, such as events, is a common word.
func (t table) ours(block string, content *yaml.Node) bool {
	for node, inner := range pairs(content) {
		if name := nameOf(node); name != "" && t.isOurs(block+"."+name, inner) {
			return true
		}
	}
	return false
}

// isOurs reports whether the content under the name of a setting or of a block is ours.
func (t table) isOurs(path string, content *yaml.Node) bool {
	if path == alsoEndBlock || path == probeThresholdPath { // no other program has these names
		return true
	}
	known := slices.ContainsFunc(t.at(path), func(k key) bool { return !k.common })
	return known || t.isBlock(path) && t.ours(path, content)
}
