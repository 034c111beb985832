package config

import "strconv"

// flag is the kind of a setting that is true or false.
type flag struct {
	field    func(*Config) *bool
	inverted bool // the field has the opposite meaning: the flag is true by default
}

func (f flag) fromVariable(text string) value { return fromText(text) }

func (f flag) set(c *Config, v value) *invalidValue {
	problem := wordProblem(v)
	switch {
	case problem != "":
	case v.quoted:
		problem = "is quoted; write it without quotes"
	case v.text != "true" && v.text != "false":
		problem = "is neither true nor false"
	}
	if problem != "" {
		return v.invalid(problem)
	}
	*f.field(c) = (v.text == "true") != f.inverted
	return nil
}

func (f flag) show(c *Config) string { return strconv.FormatBool(*f.field(c) != f.inverted) }
func (f flag) off(c *Config) bool    { return !*f.field(c) && !f.inverted }
func (f flag) disable(c *Config)     { *f.field(c) = false }
