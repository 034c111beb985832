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
	other    bool // under the key's other name
}

// String describes the source.
func (s source) String() string {
	switch {
	case s.variable != "":
		return "environment " + s.variable
	case s.line > 0:
		return position(s.file, s.line)
	default:
		return "default"
	}
}

// switchedOff returns why a setting from this source is off.
func (s source) switchedOff(path string) string {
	if s == (source{}) {
		return path + " is not set"
	}
	return fmt.Sprintf("%s is switched off by %s", path, s)
}

// fault returns an error about the key's value from this source.
func (s source) fault(k key, value, problem string) *Error {
	path := k.path()
	if s.other {
		path = k.block + "." + k.other
	}
	return s.faultAt(path, value, problem)
}

// faultAt is fault for a key at any path.
func (s source) faultAt(path, value, problem string) *Error {
	return &Error{File: s.file, Line: s.line, Variable: s.variable, Key: path, Value: value, Problem: problem}
}

// origins lists the source of every setting that is not the default.
func (c *Config) origins() string {
	var set []string
	for _, k := range keys {
		if from, ok := c.sources[k.path()]; ok {
			set = append(set, fmt.Sprintf("%s is from %s", k.path(), from))
		}
	}
	return strings.Join(append(set, "everything else is the default"), ", ")
}
