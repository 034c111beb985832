package config

import (
	"cmp"
	"slices"

	"github.com/seed62658d38/watchdog"
)

// class is the kind of a class of events.
type class struct {
	field func(*Config) *watchdog.Class
}

var classes = []string{string(watchdog.Material), string(watchdog.Active), string(watchdog.Ignored)}

func (k class) fromVariable(text string) value { return written(text) }

func (k class) set(c *Config, v value) *flaw {
	if problem := wordProblem(v); problem != "" {
		return v.flaw(problem)
	}
	if !slices.Contains(classes, v.text) {
		return v.flaw(unknownWord(v.text, "a class", classes))
	}
	*k.field(c) = watchdog.Class(v.text)
	return nil
}

func (k class) show(c *Config) string { return string(cmp.Or(*k.field(c), watchdog.Ignored)) }
func (k class) off(c *Config) bool    { return *k.field(c) == "" }
