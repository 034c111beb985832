package config

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
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

// listed is the environment of a list as os.Environ has it. The first of a name counts, as in os.LookupEnv.
func listed(variables []string) environment {
	values := map[string]string{}
	var names []string
	for _, variable := range variables {
		name, value, _ := strings.Cut(variable, "=")
		if _, twice := values[name]; !twice {
			values[name] = value
			names = append(names, name)
		}
	}
	return environment{func(name string) (string, bool) { value, set := values[name]; return value, set }, names}
}

// get returns the value of a variable. A blank one is not set: many programs cannot leave a variable out.
func (e environment) get(name string) (value string, set bool) {
	value, set = e.lookup(name)
	return value, set && strings.TrimSpace(value) != ""
}

const defaultPrefix = "WATCHDOG_"

// named returns a variable with the host's prefix, or "".
func (c *Config) named(variable string) string {
	if variable == "" {
		return ""
	}
	return cmp.Or(c.prefix, defaultPrefix) + variable
}

func (c *Config) readEnvironment(from environment) []*Error {
	var faults []*Error
	for _, k := range slices.Concat(keys, unusedKeys) {
		if k.variable != "" {
			faults = append(faults, c.readVariable(k, from)...)
		}
	}
	gone := retiredVariables()
	for _, variable := range slices.Sorted(maps.Keys(gone)) {
		if _, set := from.get(c.named(variable)); set {
			faults = append(faults, &Error{Variable: c.named(variable), Problem: isGone + gone[variable]})
		}
	}
	return append(faults, c.misspelt(from)...)
}

// readVariable reads the variable of a key, or the one of its other name.
func (c *Config) readVariable(k key, from environment) []*Error {
	at, path := source{variable: c.named(k.variable)}, k.path
	text, set := from.get(at.variable)
	if other := c.named(strings.ToUpper(k.other)); other != "" {
		if otherText, otherSet := from.get(other); otherSet {
			at, path = source{variable: other, other: true}, k.otherPath
			if set {
				return []*Error{at.fault(path, "", "is the same setting as "+c.named(k.variable)+", which is also set; set one")}
			}
			text, set = otherText, true
		}
	}
	if !set {
		return nil
	}
	c.sources[k.path] = at
	if invalid := k.set(c, k.fromVariable(text)); invalid != nil {
		return []*Error{at.fault(path, invalid.value.show, invalid.problem+k.allowedText())}
	}
	return nil
}

// misspelt returns an error for each variable that is not one of ours but was likely meant to be one: its name is close
// to one of ours, or has the name of a block. Its value is not repeated: it may be the host's.
func (c *Config) misspelt(from environment) (faults []*Error) {
	var ours []string
	for _, k := range slices.Concat(keys, unusedKeys) {
		ours = append(ours, c.named(k.variable), c.named(strings.ToUpper(k.other)))
	}
	for gone := range retiredVariables() {
		ours = append(ours, c.named(gone))
	}
	for _, name := range slices.Sorted(slices.Values(from.names)) {
		isOurs := slices.ContainsFunc(ours, func(our string) bool { // as the system compares names
			return name == our || runtime.GOOS == "windows" && strings.EqualFold(name, our)
		})
		if _, set := from.get(name); !set || isOurs {
			continue
		}
		if advice := c.advice(name); advice != "" {
			faults = append(faults, &Error{Variable: shownName(name), Problem: "is not a variable that is read; " + advice})
		}
	}
	return faults
}

// maxVariableTypos is less than closest allows: hosts have variables with long names and common words.
const maxVariableTypos = 4

var (
	ofServices = formOf(`(^|_)(service_host|service_port|port)(_|$)`) // what Kubernetes and Docker set for a service
	unitEnding = formOf(`_(ms|seconds|minutes)$`)
)

// advice returns what to write in place of a variable, or "" for a variable that is not meant for us.
func (c *Config) advice(name string) string {
	folded, prefix := fold(name), fold(cmp.Or(c.prefix, defaultPrefix))
	rest, has := strings.CutPrefix(folded, prefix)
	if !has || ofServices().MatchString(rest) {
		return c.adviceOnPrefix(folded, prefix)
	}
	near := map[string]key{}
	for _, k := range slices.Backward(keys) { // warn_at is more likely that of the wall clock than that of spend
		for _, spelling := range k.spellings() {
			near[spelling] = k
		}
	}
	if meant := closest(rest, slices.Sorted(maps.Keys(near))); meant != "" && distance(rest, meant) <= maxVariableTypos {
		return c.didYouMean(near[meant])
	}
	for _, block := range append(slices.Clip(blockNames), spendBlock) {
		if strings.HasPrefix(rest, block[strings.LastIndex(block, ".")+1:]+"_") {
			return "allowed for " + block + ": the variables " + strings.Join(c.variablesOf(block), ", ")
		}
	}
	return ""
}

func (c *Config) variablesOf(block string) (names []string) {
	for _, k := range keys {
		if k.variable != "" && strings.HasPrefix(k.path, block+".") {
			names = append(names, c.named(k.variable))
		}
	}
	return names
}

// adviceOnPrefix is [Config.advice] on a misspelt prefix. A short prefix is close to those of other programs.
func (c *Config) adviceOnPrefix(folded, prefix string) string {
	for _, k := range keys {
		head, has := strings.CutSuffix(folded, fold(k.variable))
		if has && head != prefix && k.variable != "" && len(prefix) > shortName && distance(head, prefix) <= maxTypos {
			return c.didYouMean(k)
		}
	}
	return ""
}

func (c *Config) didYouMean(k key) string {
	if k.variable == "" {
		return "write " + k.path + " in a file"
	}
	return "did you mean " + c.named(k.variable) + "?"
}

// spellings returns the names after the prefix that are taken for a key's variable, folded: its own, one without a
// unit, one in the style of its block, and the name of the key unless other programs use it.
func (k key) spellings() []string {
	block, _, _ := strings.Cut(k.path, ".")
	names := []string{strings.ReplaceAll(k.path, ".", "_"), fold(k.variable), k.other}
	for _, name := range names {
		names = append(names, unitEnding().ReplaceAllString(name, ""))
	}
	if k.variable != "" {
		names = append(names, block+"_"+fold(k.variable))
	}
	if !k.common && strings.Contains(k.name(), "_") {
		names = append(names, k.name())
	}
	return slices.DeleteFunc(append(names, k.synonyms...), func(name string) bool { return name == "" })
}
