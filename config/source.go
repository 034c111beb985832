package config

import (
	"fmt"
	"strings"
)

// A source is where a setting came from. The zero value is the default.
type source struct {
	file     string
	line     int
	variable string
}

// String names the source for people.
func (s source) String() string {
	switch {
	case s.variable != "":
		return "environment " + s.variable
	case s.line > 0:
		return place(s.file, s.line)
	default:
		return "default"
	}
}

// switchedOff says why a setting that comes from the source is off.
func (s source) switchedOff(path string) string {
	if s == (source{}) {
		return path + " is not set"
	}
	return fmt.Sprintf("%s is switched off by %s", path, s)
}

// fault is an error about what the source says of a key.
func (s source) fault(k key, value, problem string) *Error {
	return &Error{File: s.file, Line: s.line, Variable: s.variable, Key: k.path(), Value: value, Problem: problem}
}

// origins says where each setting came from that is not the default.
func (c *Config) origins() string {
	var set []string
	for _, k := range keys {
		if from, ok := c.sources[k.path()]; ok {
			set = append(set, fmt.Sprintf("%s is from %s", k.path(), from))
		}
	}
	return strings.Join(append(set, "everything else is the default"), ", ")
}
