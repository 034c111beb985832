package config

import "strconv"

// flag is the kind of a setting that is on or off.
type flag struct {
	field func(*Config) *bool
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
	*f.field(c) = v.text == "true"
	return nil
}

func (f flag) show(c *Config) string { return strconv.FormatBool(*f.field(c)) }
func (f flag) off(c *Config) bool    { return !*f.field(c) }
func (f flag) rest(c *Config)        { *f.field(c) = false }
