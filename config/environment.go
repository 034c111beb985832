package config

import "os"

// A Lookup returns the value of an environment variable and whether it is set, as [os.LookupEnv] does. Nil means
// [os.LookupEnv].
type Lookup func(variable string) (value string, set bool)

// NoEnvironment is the [Lookup] of an environment in which nothing is set.
func NoEnvironment(string) (value string, set bool) { return "", false }

// readEnvironment takes over every variable that is set.
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
		if flaw := k.kind.set(c, k.kind.fromVariable(text)); flaw != nil {
			faults = append(faults, from.fault(k, flaw.value.show, flaw.what+k.allows()))
		}
		c.sources[k.path()] = from
	}
	return faults
}
