package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/seed62658d38/watchdog"
)

// scopes reads the list, each item into a Config of its own.
func (f *file) scopes(k key, node, content *yaml.Node) {
	v := fromNode(content)
	problem := first([]when{
		{v.unsupported != "", v.unsupported + k.allowedText()}, {!v.list, "is not a list" + k.allowedText()},
		{len(content.Content) > maxFew, "has more than 100 scopes"},
	})
	if problem != "" {
		f.reader(keys, controlsBlock, controlsBlock, f.config).fault(scopesPath, content.Line, content, problem)
		return
	}
	f.config.sources[scopesPath] = source{file: f.name, line: node.Line}
	for i, item := range content.Content {
		s := scope{
			place: fmt.Sprintf("%s[%d]", scopesPath, i), file: f.name, line: item.Line,
			config: &Config{sources: map[string]source{}},
		}
		f.reader(scopeKeys, scopesPath, s.place, s.config).block(scopesPath, item.Line, item)
		f.config.scopes = append(f.config.scopes, s)
	}
}

func (s scope) at(path string) string { return s.place + strings.TrimPrefix(path, scopesPath) }

// fault is an error about one of its keys.
func (s scope) fault(path, problem string) *Error {
	return s.config.sources[path].fault(s.at(path), scopeKeys.key(path).show(s.config), problem)
}

func (c *Config) adoptScopes() {
	for _, s := range c.scopes {
		shared := s.config.shared
		shared.Spend = s.config.Budget.Spend
		c.Scopes = append(c.Scopes, shared)
		for _, path := range slices.Sorted(maps.Keys(s.config.sources)) {
			c.sources[ofNamedScope(shared.Scope, path)] = s.config.sources[path]
		}
	}
	c.scopes = nil
}

// ofNamedScope returns the path of a setting of a scope as people read it.
func ofNamedScope(name, path string) string {
	return scope{place: scopesPath + "." + shownName(name)}.at(path)
}

func (c *Config) setOfScopes() []Setting {
	var set []Setting
	for _, s := range c.Scopes {
		one := &Config{shared: s, Budget: watchdog.Budget{Spend: s.Spend}, reserveCurrency: s.Spend.Cost.Currency}
		for _, k := range scopeKeys[1:] {
			path := ofNamedScope(s.Scope, k.path)
			from, placed := c.sources[path]
			isLimit := len(k.needs) == 0 && k.block() != scopesPath
			if placed || isLimit && !k.off(one) {
				of := one.setting(k)
				of.Key, of.Source = path, from.String()
				set = append(set, of)
			}
		}
	}
	return set
}

// checkScopes compares the settings of each scope with each other and with those of the run.
func (c *Config) checkScopes() []*Error {
	var faults []*Error
	lines := map[string]int{}
	for _, s := range c.scopes {
		own := s.check(c)
		if line := lines[s.config.shared.Scope]; line > 0 && len(own) == 0 {
			problem := fmt.Sprintf("is a second scope of this name; the first is in line %d", line)
			own = []*Error{s.fault(scopesPath+".scope", problem)}
		}
		lines[s.config.shared.Scope] = s.line
		faults = append(faults, own...)
	}
	return faults
}

func (s scope) check(run *Config) (faults []*Error) {
	c := s.config
	for _, k := range scopeKeys {
		faults = append(faults, c.checkKey(k, s.at)...)
	}
	c.dropWarnings()
	for _, k := range scopeKeys {
		if k.ofRun && !k.off(c) {
			problem := "is a limit of one run, and not shared; write it as " + spendBlock + "." + k.name()
			faults = append(faults, s.fault(k.path, problem))
		}
	}
	if len(faults) > 0 {
		return faults
	}
	own, counted := c.Budget.Spend.Cost.Currency, run.currency(s)
	if own != "" && counted != "" && own != counted {
		return []*Error{s.fault(scopesPath+".spend.cost", "has another currency than what the run counts, "+counted)}
	}
	if c.shared.Zone != "" && c.shared.Period == "" {
		return []*Error{s.fault(scopesPath+".zone", "can never take effect: the scope has no period")}
	}
	return s.checkWhole()
}

// checkWhole returns what is wrong with a scope whose settings are right by themselves.
func (s scope) checkWhole() []*Error {
	c := s.config
	err := c.Budget.Validate()
	problem := first([]when{
		{c.shared.Scope == "", "has no name; write scope: and the name"},
		{!c.limitsSpend(), "can never take effect: it has no limit; write spend: and one"},
		{err != nil, fmt.Sprint(err)},
	})
	for tool := range c.Budget.Spend.Tools {
		slice := watchdog.Slice{ID: "x", Scope: c.shared.Scope + "/tool/" + tool}
		if problem == "" && slice.Validate() != nil {
			problem = "has a name that is too long with that of the tool " + shown(tool, maxShown)
		}
	}
	if problem == "" {
		return nil
	}
	return []*Error{{File: s.file, Line: s.line, Key: s.place, Problem: problem, Err: err}}
}

// currency is what a run counts, as far as what is before the scope says.
func (c *Config) currency(before scope) string {
	if currency := c.Budget.Spend.Cost.Currency; currency != "" && c.Budget.Spend.Cost.Micros > 0 {
		return currency
	}
	for _, s := range c.scopes {
		if currency := s.config.Budget.Spend.Cost.Currency; currency != "" || s.place == before.place {
			return currency
		}
	}
	return ""
}
