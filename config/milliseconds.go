package config

import "strings"

// milliseconds is the kind of a length whose variable is a number of milliseconds.
type milliseconds struct{ length }

func (m milliseconds) fromVariable(text string) value {
	v := fromText(text)
	switch problem := numberProblem(v); {
	case problem != "":
		v.unsupported = problem
	case strings.Contains(text, "."):
		v.unsupported = "is not a whole number"
	default:
		v.text += "ms"
	}
	return v
}

// delay is the kind of such a length where 0 is a valid length.
type delay struct{ milliseconds }

func (d delay) show(c *Config) string {
	if d.effective(c) <= 0 {
		return "none"
	}
	return d.effective(c).String()
}

func (d delay) off(*Config) bool { return false }
