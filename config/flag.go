package config

import "strconv"

// flag is the kind of a setting that is on or off.
type flag struct {
	field    func(*Config) *bool
	inverted bool // whether the field says the opposite; such a flag is on by default, and false is a setting too
}

func (f flag) fromVariable(text string) value { return written(text) }

func (f flag) set(c *Config, v value) *flaw {
	problem := wordProblem(v)
	switch {
	case problem != "":
	case v.quoted:
		problem = "is quoted; write it without quotes"
	case v.text != "true" && v.text != "false":
		problem = "is neither true nor false"
	}
	if problem != "" {
		return v.flaw(problem)
	}
	*f.field(c) = (v.text == "true") != f.inverted
	return nil
}

func (f flag) show(c *Config) string { return strconv.FormatBool(*f.field(c) != f.inverted) }
func (f flag) off(c *Config) bool    { return !*f.field(c) && !f.inverted }
func (f flag) rest(c *Config)        { *f.field(c) = false }
