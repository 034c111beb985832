package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/seed62658d38/watchdog"
)

// scopes is the kind of the list of what runs share limits with. It has no variable: a variable cannot hold it.
type scopes struct{}

func (scopes) fromVariable(text string) value       { return fromText(text) }
func (scopes) set(_ *Config, v value) *invalidValue { return v.invalid("is not a list of scopes") }
func (scopes) off(c *Config) bool                   { return len(c.Scopes)+len(c.scopes) == 0 }

func (s scopes) show(c *Config) string {
	if len(c.Scopes) == 0 {
		return "none"
	}
	var names []string
	for _, one := range c.Scopes {
		names = append(names, one.Scope)
	}
	return shown(strings.Join(names, ", "), maxShown)
}

// A scope is one item of the list, read into a Config of its own: its limits are those of the spend block.
type scope struct {
	place  string // of the item, such as runtime_controls.scopes[0]
	file   string
	line   int
	config *Config
}

// maxScopes is more than a run shares limits with.
const maxScopes = 100

func (s scopes) read(f *file, k key, node, content *yaml.Node) {
	v := fromNode(content)
	switch {
	case isNull(content):
		return
	case v.unsupported != "":
		f.blockFault(scopesPath, content.Line, content, v.unsupported+k.allows())
		return
	case !v.list:
		f.blockFault(scopesPath, content.Line, content, "is not a list"+k.allows())
		return
	case len(content.Content) > maxScopes:
		f.blockFault(scopesPath, content.Line, content, "has more than 100 scopes")
		return
	}
	f.config.sources[scopesPath] = source{file: f.name, line: node.Line}
	for i, item := range content.Content {
		f.scope(fmt.Sprintf("%s[%d]", scopesPath, i), item)
	}
}

// scope reads one item of the list.
func (f *file) scope(place string, item *yaml.Node) {
	s := scope{place: place, file: f.name, line: item.Line, config: &Config{sources: map[string]source{}}}
	switch v := fromNode(item); {
	case v.mapping:
	case item.Kind == yaml.MappingNode || item.Kind == yaml.AliasNode:
		f.blockFault(place, item.Line, item, v.unsupported)
		return
	default:
		f.blockFault(place, item.Line, item, "is not a mapping; allowed: the keys "+strings.Join(scopeNames(), ", "))
		return
	}
	inner := &file{name: f.name, config: s.config, hostBlocks: f.hostBlocks, stalls: f.stalls}
	before := map[string]*yaml.Node{}
	for node, content := range pairs(item) {
		inner.scopeEntry(node, content, before)
	}
	f.faults = append(f.faults, s.moved(inner.faults)...)
	f.config.scopes = append(f.config.scopes, s)
}

// scopeNames are the keys of an item.
func scopeNames() (names []string) {
	for _, k := range scopeKeys {
		names = append(names, k.name)
	}
	return append(names, "spend")
}

// scopeEntry reads one key of an item.
func (f *file) scopeEntry(node, content *yaml.Node, before map[string]*yaml.Node) {
	name := nameOf(node)
	if !slices.Contains(scopeNames(), name) {
		f.unknownInScope(node, content)
		return
	}
	if first, twice := before[name]; twice {
		f.blockFault(scopesPath+"."+name, node.Line, content, secondValue(first, node))
		return
	}
	before[name] = node
	if name == "spend" {
		f.block(spendBlock, content)
		return
	}
	i := slices.IndexFunc(scopeKeys, func(k key) bool { return k.name == name })
	f.setting(scopeKeys[i], node, content)
}

// unknownInScope reports a key that is not one of an item. A limit belongs in the block of limits.
func (f *file) unknownInScope(node, content *yaml.Node) {
	name, value, problem := nameOf(node), show(content), "stands under an unknown key;"
	path := scopesPath + "." + shown(name, maxShown)
	switch {
	case isMerge(node):
		path, value, problem = scopesPath, show(node), "is a merge key; write the keys themselves;"
	case name == "":
		path, value, problem = scopesPath, show(node), "is not the name of a key;"
	case slices.Contains(names(spendBlock), name):
		problem += " did you mean " + spendBlock + "." + name + "?"
	case name == "limits":
		problem += " did you mean spend?"
	case closest(name, scopeNames()) != "":
		problem += " did you mean " + closest(name, scopeNames()) + "?"
	}
	f.faults = append(f.faults, &Error{
		File: f.name, Line: node.Line, Key: path, Value: value,
		Problem: problem + " allowed: the keys " + strings.Join(scopeNames(), ", "),
	})
}

// moved returns the errors of an item with its own place.
func (s scope) moved(faults []*Error) []*Error {
	for _, fault := range faults {
		fault.Key = s.path(fault.Key)
		fault.Problem = strings.ReplaceAll(fault.Problem, spendBlock+".", s.place+".spend.")
	}
	return faults
}

// path returns the place of a setting in the item.
func (s scope) path(path string) string {
	for from, to := range map[string]string{scopesPath: s.place, spendBlock: s.place + ".spend"} {
		if rest, has := strings.CutPrefix(path, from); has {
			return to + rest
		}
	}
	return path
}

// adoptScopes makes the scopes ready for the watchdog.
func (c *Config) adoptScopes() {
	for _, s := range c.scopes {
		shared := s.config.shared
		shared.Spend = s.config.Budget.Spend
		c.Scopes = append(c.Scopes, shared)
		for _, path := range slices.Sorted(maps.Keys(s.config.sources)) {
			c.sources[pathInScope(shared.Scope, path)] = s.config.sources[path]
		}
	}
	c.scopes = nil
}

// pathInScope returns the path of a setting of a scope as people read it.
func pathInScope(name, path string) string {
	own := scope{place: scopesPath + "." + shownName(name)}
	return own.path(path)
}

// setOfScopes returns the settings of the scopes that are set.
func (c *Config) setOfScopes() []Setting {
	var set []Setting
	for _, s := range c.Scopes {
		one := &Config{shared: s, Budget: watchdog.Budget{Spend: s.Spend}, reserveCurrency: s.Spend.Cost.Currency}
		for _, k := range slices.Concat(scopeKeys[1:], spendKeys) {
			path := pathInScope(s.Scope, k.path())
			from, placed := c.sources[path]
			if placed || slices.Contains(spendLimits, k.path()) && !k.kind.off(one) {
				set = append(set, Setting{Key: path, Allowed: k.allowed, Value: k.kind.show(one), Source: from.String()})
			}
		}
	}
	return set
}

// hasScopes reports whether a list under the name of ours is ours: an item has limits.
func hasScopes(content *yaml.Node) bool {
	if content.Kind != yaml.SequenceNode {
		return false
	}
	return slices.ContainsFunc(content.Content, func(item *yaml.Node) bool {
		if item.Kind != yaml.MappingNode {
			return false
		}
		for key, inner := range pairs(item) {
			if nameOf(key) == "spend" && hasOurKeys(spendBlock, inner) {
				return true
			}
		}
		return false
	})
}
