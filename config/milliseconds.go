package config

import "strings"

// milliseconds is the kind of a length that is a number of milliseconds in its variable.
type milliseconds struct{ length }

func (m milliseconds) fromVariable(text string) value {
	v := written(text)
	switch problem := numberProblem(v); {
	case problem != "":
		v.odd = problem
	case strings.Contains(text, "."):
		v.odd = "is not a whole number"
	default:
		v.text += "ms"
	}
	return v
}

// delay is the kind of such a length where none is a length like the others.
type delay struct{ milliseconds }

func (d delay) show(c *Config) string {
	if d.inForce(c) <= 0 {
		return "none"
	}
	return d.inForce(c).String()
}

func (d delay) off(*Config) bool { return false }
