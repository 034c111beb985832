package config

import (
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"
)

// keys lists all settings. A new one is a new row in the table of its block and a line in a page of
// docs/configuration.md; the file, the environment, the errors and the output follow. A row comes after the rows that
// it needs or must be below.
var keys = slices.Concat(controlKeys, stallKeys, sweepKeys, keeperKeys, notifyKeys)

// A key is one setting: its names and its values.
type key struct {
	block    string   // the block in the file, or the path of an inner block
	name     string   // the name in the block
	other    string   // another name of the key, and of its variable
	variable string   // the environment variable, if there is one
	allowed  string   // describes the allowed values
	synonyms []string // what it is also called where it is not read, for errors
	needs    []string // paths of settings, one of which must be on for an effect
	lacks    string   // what to say of needs that are many, if all are off
	within   []string // paths of limits that it must be shorter than, or it is never exceeded
	kind     kind

	independent bool // it has another use too, so it is not disabled when a variable switches off what it needs
	common      bool // other programs use this name too: outside of its block it is taken for theirs
	secret      bool // errors must not show its value
}

// A kind reads a value, keeps it in a Config and prints it.
type kind interface {
	// fromVariable splits the text of a variable, as YAML splits the value in a file.
	fromVariable(text string) value
	// set keeps the value, or returns what is wrong with it.
	set(c *Config, v value) *invalidValue
	// show returns the value in force.
	show(c *Config) string
	// off reports whether the value in force switches the setting off.
	off(c *Config) bool
}

// A nodeKind reads its part of a file by itself: it has settings inside.
type nodeKind interface {
	read(f *file, k key, node, content *yaml.Node)
}

// dependent is the kind of a setting that has no effect without others.
type dependent interface {
	// disable switches the setting off.
	disable(c *Config)
}

// durationKind is the kind of a duration.
type durationKind interface {
	effective(c *Config) time.Duration
}

func (c *Config) length(k key) time.Duration { return k.kind.(durationKind).effective(c) }

func (k key) path() string   { return k.block + "." + k.name }
func (k key) allows() string { return "; allowed: " + k.allowed }

// hides reports whether the value at a path may be the value of a secret key, or meant to be one. An address shows what
// it is by itself: only its own block hides it.
func hides(path string) bool {
	return slices.ContainsFunc(keys, func(k key) bool {
		return k.secret && strings.HasPrefix(k.path()+".", path+".") && (k.block != notifyBlock || path != sweepBlock)
	})
}

// isAddress reports whether a node is an address, whose path may be a secret.
func isAddress(node *yaml.Node) bool { return strings.Contains(node.Value, "://") }

func keyAt(path string) (k key, known bool) {
	i := slices.IndexFunc(keys, func(k key) bool { return k.path() == path })
	if i < 0 {
		return key{}, false
	}
	return keys[i], true
}

// names returns the keys and inner blocks of a block, in the order of the table.
func names(block string) []string {
	var names []string
	for _, k := range keys {
		inside, ok := strings.CutPrefix(k.path(), block+".")
		name, _, _ := strings.Cut(inside, ".")
		if ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// blockNames are our top-level keys.
var blockNames = func() (names []string) {
	for _, k := range keys {
		block, _, _ := strings.Cut(k.block, ".")
		if !slices.Contains(names, block) {
			names = append(names, block)
		}
	}
	return names
}()
