package config

import (
	"os"
	"strings"
)

// A Lookup returns the value of an environment variable and whether it is set. A blank value is one that is not set.
// Nil means the environment of the process, and that a misspelt variable in it is an error. Any other Lookup, such as
// [os.LookupEnv], is only asked for our variables; see [Loader] for a list of variables.
type Lookup func(variable string) (value string, set bool)

// NoEnvironment is a [Lookup] without any variable.
func NoEnvironment(string) (value string, set bool) { return "", false }

// An environment is where variables come from. It has no names if they cannot be listed.
type environment struct {
	lookup Lookup
	names  []string
}

func ofProcess() environment {
	var names []string
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		names = append(names, name)
	}
	return environment{os.LookupEnv, names}
}

// get returns the value of a variable. A blank one is not set: many programs cannot leave a variable out.
func (e environment) get(name string) (value string, set bool) {
	value, set = e.lookup(name)
	return value, set && strings.TrimSpace(value) != ""
}

// readEnvironment reads every variable that is set.
func (c *Config) readEnvironment(from environment) []*Error {
	var faults []*Error
	for _, k := range keys {
		if k.variable != "" {
			faults = append(faults, c.readVariable(k, from)...)
		}
	}
	for _, name := range unusedNames {
		if _, set := from.get(c.variableOf(name)); set {
			c.sources[controlsBlock+"."+name] = source{variable: c.variableOf(name)}
		}
	}
	return append(faults, c.misspelt(from)...)
}

// readVariable reads the variable of a key, or the one of its other name.
func (c *Config) readVariable(k key, from environment) []*Error {
	at := source{variable: c.variable(k)}
	text, set := from.get(at.variable)
	if other := c.variableOf(k.other); other != "" {
		otherText, otherSet := from.get(other)
		if set && otherSet {
			at.variable, at.other = other, true
			return []*Error{at.fault(k, "", "is the same setting as "+c.variable(k)+", which is also set; set one")}
		}
		if otherSet {
			at, text, set = source{variable: other, other: true}, otherText, true
		}
	}
	if !set {
		return nil
	}
	c.sources[k.path()] = at
	if invalid := k.kind.set(c, k.kind.fromVariable(text)); invalid != nil {
		return []*Error{at.fault(k, invalid.value.show, invalid.problem+k.allows())}
	}
	return nil
}

// defaultPrefix begins the variables in the table.
const defaultPrefix = "WATCHDOG_"

// variable returns the key's variable with the host's prefix, or "".
func (c *Config) variable(k key) string {
	if k.variable == "" || c.prefix == "" {
		return k.variable
	}
	return c.prefix + strings.TrimPrefix(k.variable, defaultPrefix)
}
