package config

import (
	"cmp"
	"unicode/utf8"
)

// label is the kind of a name for people, in one line.
type label struct {
	field  func(*Config) *string
	absent string // what is shown of a name that is not set
}

// maxLabel is the longest name that a machine can have.
const maxLabel = 255

func (l label) fromVariable(text string) value { return fromText(text) }

func (l label) set(c *Config, v value) *invalidValue {
	problem := cmp.Or(textProblem(v), unseenProblem(v.text))
	switch {
	case problem != "":
	case v.text == "":
		problem = "is empty"
	case utf8.RuneCountInString(v.text) > maxLabel:
		problem = "is longer than 255 characters"
	}
	if problem != "" {
		return v.invalid(problem)
	}
	*l.field(c) = v.text
	return nil
}

func (l label) show(c *Config) string { return shown(cmp.Or(*l.field(c), l.absent), maxShown) }
func (l label) off(*Config) bool      { return false }
