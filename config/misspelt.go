package config

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
	"strings"
)

// misspelt returns an error for each variable that is not one of ours but was likely meant to be one: its name is close
// to one of ours, or has the name of a block. Its value is not repeated: it may be the host's.
func (c *Config) misspelt(from environment) []*Error {
	ours := c.variables()
	var faults []*Error
	for _, name := range slices.Sorted(slices.Values(from.names)) {
		if _, set := from.get(name); !set || isOneOf(name, ours) {
			continue
		}
		if advice := c.advice(name); advice != "" {
			problem := "is not a variable that is read; " + advice
			faults = append(faults, &Error{Variable: shownName(name), Problem: problem})
		}
	}
	return faults
}

// variables returns the names of all variables, and of those that are not used.
func (c *Config) variables() []string {
	var names []string
	for _, k := range keys {
		if k.variable != "" {
			names = append(names, c.variable(k))
		}
		if k.other != "" {
			names = append(names, c.variableOf(k.other))
		}
	}
	for _, name := range unusedNames {
		names = append(names, c.variableOf(name))
	}
	return names
}

// isOneOf compares names as the system does.
func isOneOf(name string, ours []string) bool {
	return slices.ContainsFunc(ours, func(our string) bool {
		return name == our || runtime.GOOS == "windows" && strings.EqualFold(name, our)
	})
}

// maxVariableTypos is less than closest allows: hosts have variables with long names and common words.
const maxVariableTypos = 4

// ofServices matches what Kubernetes and Docker set for a service or a container that is called watchdog.
var ofServices = formOf(`(^|_)(service_host|service_port|port)(_|$)`)

// advice returns what to write in place of a variable, or "" for a variable that is not meant for us.
func (c *Config) advice(name string) string {
	folded, prefix := fold(name), fold(cmp.Or(c.prefix, defaultPrefix))
	rest, has := strings.CutPrefix(folded, prefix)
	if !has {
		return c.adviceOnPrefix(folded, prefix)
	}
	if ofServices().MatchString(rest) {
		return ""
	}
	if name, of := strings.CutPrefix(rest, "loop_"); of {
		if instead, gone := insteadOf(name); gone {
			return "it is gone; use " + c.variable(instead)
		}
	}
	near := map[string]key{}
	for _, k := range keys {
		for _, spelling := range spellings(k) {
			if _, taken := near[spelling]; !taken { // warn_at is more likely that of the wall clock than that of spend
				near[spelling] = k
			}
		}
	}
	meant := closest(rest, slices.Sorted(maps.Keys(near)))
	if meant != "" && distance(rest, meant) <= maxVariableTypos {
		return c.didYouMean(near[meant])
	}
	for _, block := range append(slices.Clip(blockNames), spendBlock, loopBlock) {
		if strings.HasPrefix(rest, block[strings.LastIndex(block, ".")+1:]+"_") {
			return "allowed for " + block + ": the variables " + strings.Join(c.variablesOf(block), ", ")
		}
	}
	return ""
}

// adviceOnPrefix returns what to write in place of a variable of ours under a misspelt prefix. A short prefix is close
// to those of other programs.
func (c *Config) adviceOnPrefix(folded, prefix string) string {
	if len(prefix) <= shortName {
		return ""
	}
	for _, k := range keys {
		head, has := strings.CutSuffix(folded, suffix(k))
		if has && k.variable != "" && distance(head, prefix) <= maxTypos {
			return c.didYouMean(k)
		}
	}
	return ""
}

func (c *Config) didYouMean(k key) string {
	if k.variable == "" {
		return "write " + k.path() + " in a file"
	}
	return "did you mean " + c.variable(k) + "?"
}

func (c *Config) variablesOf(block string) []string {
	var names []string
	for _, k := range keys {
		if k.variable != "" && strings.HasPrefix(k.path(), block+".") {
			names = append(names, c.variable(k))
		}
	}
	return names
}

// suffix returns a key's variable without the prefix, folded.
func suffix(k key) string { return fold(strings.TrimPrefix(k.variable, defaultPrefix)) }

// unitEnding matches the unit at the end of a variable.
var unitEnding = formOf(`_(ms|seconds|minutes)$`)

// spellings returns the names after the prefix that are taken for a key's variable, folded: its own, one without a
// unit, one in the style of its block, and the name of the key unless other programs use it.
func spellings(k key) []string {
	path := strings.ReplaceAll(k.path(), ".", "_")
	block, _, _ := strings.Cut(k.path(), ".")
	names := []string{path, unitEnding().ReplaceAllString(path, "")}
	if k.variable != "" {
		own := suffix(k)
		names = append(names, own, unitEnding().ReplaceAllString(own, ""), block+"_"+own)
	}
	if k.other != "" {
		names = append(names, k.other, unitEnding().ReplaceAllString(k.other, ""))
	}
	names = append(names, k.synonyms...)
	if !k.common && strings.Contains(k.name, "_") {
		names = append(names, k.name)
	}
	return names
}
