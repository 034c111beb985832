package config

import (
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
)

// controls is the block of the session watchdog.
const controls = "runtime_controls"

// keys is every setting there is. A new one is a new row here and its line in docs/configuration.md; the file, the
// environment, the errors and what is printed follow.
var keys = []key{
	{
		block: controls, name: "session_wall_clock_seconds", variable: "WATCHDOG_SESSION_WALL_CLOCK_SECONDS",
		allowed: "a number of seconds such as 14400 or 0.5, or 0 for no limit",
		kind: seconds{
			field:    func(c *Config) *time.Duration { return &c.Budget.WallClock },
			standard: watchdog.DefaultWallClock,
			zero:     watchdog.NoLimit,
		},
	},
	{
		block: controls, name: "warn_at", variable: "WATCHDOG_WARN_AT", needs: controls + ".session_wall_clock_seconds",
		allowed: "different fractions between 0 and 1, in a file such as [0.5, 0.8], in the environment such as 0.5,0.8, or 0 for none",
		kind: fractions{
			field:    func(c *Config) *[]float64 { return &c.Budget.WarnAt },
			standard: []float64{watchdog.DefaultWarnAt},
		},
	},
	{
		block: controls, name: "reserve_seconds", variable: "WATCHDOG_RESERVE_SECONDS", needs: controls + ".session_wall_clock_seconds",
		allowed: "a number of seconds less than the wall clock, such as 60 or 0.5, or 0 for none",
		kind:    seconds{field: func(c *Config) *time.Duration { return &c.Budget.Reserve }},
	},
}

// A key is one setting: what it is called, and what it may be.
type key struct {
	block    string // the block of the file it stands in
	name     string // what it is called there
	variable string // what it is called in the environment
	needs    string // the path of the limit without which it has no effect, if there is one
	allowed  string // what its value may be, for people
	kind     kind
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

func (k key) path() string   { return k.block + "." + k.name }
func (k key) allows() string { return "; allowed: " + k.allowed }

func keyAt(path string) (key, bool) {
	return first(func(k key) bool { return k.path() == path })
}

func keyNamed(block, name string) (key, bool) {
	return first(func(k key) bool { return k.block == block && k.name == name })
}

func first(match func(key) bool) (key, bool) {
	if i := slices.IndexFunc(keys, match); i >= 0 {
		return keys[i], true
	}
	return key{}, false
}

// names are the keys of a block, in the order of the table.
func names(block string) []string {
	var names []string
	for _, k := range keys {
		if k.block == block {
			names = append(names, k.name)
		}
	}
	return names
}

// blocks are the top-level keys of a file that are ours.
func blocks() []string {
	var blocks []string
	for _, k := range keys {
		if !slices.Contains(blocks, k.block) {
			blocks = append(blocks, k.block)
		}
	}
	return blocks
}
