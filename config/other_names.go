package config

import (
	"slices"
	"strings"
)

// unusedNames are keys of runtime_controls that are accepted and listed as not used: files of the system that the other
// names come from have them.
var unusedNames = []string{"mcp_tool_timeout_seconds", "watchdog_poll_seconds"}

// isUnused reports whether a key is accepted and not used.
func isUnused(block, name string) bool {
	return block == controlsBlock && slices.Contains(unusedNames, name)
}

// canonical returns the name of the setting that a key of a block sets, also under its other name.
func canonical(block, name string) string {
	i := slices.IndexFunc(keys, func(k key) bool { return k.block == block && k.other != "" && k.other == name })
	if i < 0 {
		return name
	}
	return keys[i].name
}

// accepted returns every name that a block accepts.
func accepted(block string) []string {
	all := names(block)
	for _, k := range keys {
		if k.block == block && k.other != "" {
			all = append(all, k.other)
		}
	}
	if block == controlsBlock {
		all = append(all, unusedNames...)
	}
	return all
}

// variableOf returns the variable of a name that has none in the table.
func (c *Config) variableOf(name string) string {
	if name == "" {
		return ""
	}
	prefix := c.prefix
	if prefix == "" {
		prefix = defaultPrefix
	}
	return prefix + strings.ToUpper(name)
}

// unusedSettings returns the keys and variables that were set and are not used.
func (c *Config) unusedSettings() []Setting {
	var settings []Setting
	for _, name := range unusedNames {
		path := controlsBlock + "." + name
		if from, set := c.sources[path]; set {
			settings = append(settings, Setting{
				Key: path, Variable: c.variableOf(name), Allowed: "anything", Value: "not used", Source: from.String(),
			})
		}
	}
	return settings
}
