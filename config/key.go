package config

import (
	"slices"
	"strings"
	"time"
)

// keys is every setting there is. A new one is a new row in the table of its block and its line in docs/configuration.md; the file, the
// environment, the errors and what is printed follow. What a row needs, and what it has to be shorter than, stands above it.
var keys = slices.Concat(controlKeys, stallKeys, sweepKeys)

// A key is one setting: what it is called, and what it may be.
type key struct {
	block    string   // the block of the file it stands in, or the path of one within it
	name     string   // what it is called there
	variable string   // what it is called in the environment, if it can be set there
	allowed  string   // what its value may be, for people
	needs    []string // the paths of the settings without which it has no effect: one of them has to be on
	within   []string // the paths of the limits that it has to be shorter than to be exceeded at all
	kind     kind

	stays  bool // whether it is of use besides what it needs: it does not rest when a variable switches that off
	common bool // whether other programs have such a key too: where it stands outside of its block it is taken for theirs
	secret bool // whether it can hold what errors must not repeat
}

// A kind knows how a value is read, kept in a Config and shown.
type kind interface {
	// fromVariable takes the text of a variable apart, as YAML did for the value in a file.
	fromVariable(text string) value
	// set keeps the value, or says what is wrong with it.
	set(c *Config, v value) *flaw
	// show is the value in force.
	show(c *Config) string
	// off reports whether the value in force switches the setting off.
	off(c *Config) bool
}

// tuning is the kind of a setting that other settings can leave without effect.
type tuning interface {
	// rest switches the setting off.
	rest(c *Config)
}

// lasting is the kind of a length of time.
type lasting interface {
	inForce(c *Config) time.Duration
}

func (c *Config) length(k key) time.Duration { return k.kind.(lasting).inForce(c) }

func (k key) path() string   { return k.block + "." + k.name }
func (k key) allows() string { return "; allowed: " + k.allowed }

// hides reports whether what stands at a path may be the value of a secret key, or have been meant to be.
func hides(path string) bool {
	return slices.ContainsFunc(keys, func(k key) bool { return k.secret && strings.HasPrefix(k.path()+".", path+".") })
}

func keyAt(path string) (k key, known bool) {
	i := slices.IndexFunc(keys, func(k key) bool { return k.path() == path })
	if i < 0 {
		return key{}, false
	}
	return keys[i], true
}

// names are what may stand in a block, keys and blocks within it, in the order of the table. Only a block has any.
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

// blocks are the top-level keys of a file that are ours.
func blocks() []string {
	var blocks []string
	for _, k := range keys {
		block, _, _ := strings.Cut(k.block, ".")
		if !slices.Contains(blocks, block) {
			blocks = append(blocks, block)
		}
	}
	return blocks
}
