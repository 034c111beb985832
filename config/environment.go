package config

import "os"

// A Lookup returns the value of an environment variable and whether it is set. Nil means [os.LookupEnv].
type Lookup func(variable string) (value string, set bool)

// NoEnvironment is a [Lookup] without any variable.
func NoEnvironment(string) (value string, set bool) { return "", false }

// readEnvironment reads every variable that is set.
func (c *Config) readEnvironment(lookup Lookup) []*Error {
	if lookup == nil {
		lookup = os.LookupEnv
	}
	var faults []*Error
	for _, k := range keys {
		if k.variable == "" {
			continue
		}
		text, set := lookup(k.variable)
		if !set {
			continue
		}
		from := source{variable: k.variable}
		if invalid := k.kind.set(c, k.kind.fromVariable(text)); invalid != nil {
			faults = append(faults, from.fault(k, invalid.value.show, invalid.problem+k.allows()))
		}
		c.sources[k.path()] = from
	}
	return faults
}
