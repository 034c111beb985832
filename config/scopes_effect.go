package config

import (
	"slices"

	"github.com/seed62658d38/watchdog"
)

// checkScopes compares the settings of each scope with each other and with those of the run.
func (c *Config) checkScopes() []*Error {
	var faults []*Error
	first := map[string]scope{}
	for _, s := range c.scopes {
		own := s.check(c)
		if before, twice := first[s.config.shared.Scope]; twice && len(own) == 0 {
			own = []*Error{s.fault("scope", "is a second scope of this name; the first is in "+position("", before.line))}
		}
		first[s.config.shared.Scope] = s
		faults = append(faults, own...)
	}
	return faults
}

// check returns what is wrong with a scope.
func (s scope) check(run *Config) (faults []*Error) {
	c := s.config
	for _, k := range slices.Concat(scopeKeys, spendKeys) {
		if fault := c.checkKey(k); fault != nil {
			faults = append(faults, fault)
		}
	}
	c.adoptWarnings()
	faults = s.moved(faults)
	for _, path := range onlyOfRuns {
		if k, _ := keyAt(path); !k.kind.off(c) {
			problem := "is a limit of one run, and not shared; write it as " + path
			faults = append(faults, c.sources[path].faultAt(s.path(path), k.kind.show(c), problem))
		}
	}
	switch {
	case len(faults) > 0:
	case c.shared.Zone != "" && c.shared.Period == "":
		return []*Error{s.fault("zone", "can never take effect: the scope has no period")}
	case c.shared.Scope == "":
		return []*Error{s.fault("", "has no name; write scope: and the name")}
	case !c.limitsSpend():
		return []*Error{s.fault("", "can never take effect: it has no limit; write spend: and one")}
	default:
		return s.checkAll(run)
	}
	return faults
}

// checkAll returns what is wrong with a scope whose settings are right by themselves.
func (s scope) checkAll(run *Config) []*Error {
	c := s.config
	currency := run.currency(s)
	if own := c.Budget.Spend.Cost.Currency; own != "" && currency != "" && own != currency {
		k, _ := keyAt(costPath)
		return []*Error{c.sources[costPath].faultAt(s.path(costPath), k.kind.show(c),
			"has another currency than what the run counts, "+currency)}
	}
	if err := c.Budget.Validate(); err != nil {
		return []*Error{{File: s.file, Line: s.line, Key: s.place, Problem: err.Error(), Err: err}}
	}
	for tool := range c.Budget.Spend.Tools {
		slice := watchdog.Slice{ID: "x", Scope: c.shared.Scope + "/tool/" + tool}
		if slice.Validate() != nil {
			return []*Error{s.fault("", "has a name that is too long with that of the tool "+shown(tool, maxShown))}
		}
	}
	return nil
}

// currency is what a run counts, as far as what is before the scope says.
func (c *Config) currency(before scope) string {
	if currency := c.Budget.Spend.Cost.Currency; currency != "" && c.Budget.Spend.Cost.Micros > 0 {
		return currency
	}
	for _, s := range c.scopes {
		if s.place == before.place {
			break
		}
		if currency := s.config.Budget.Spend.Cost.Currency; currency != "" {
			return currency
		}
	}
	return ""
}

// fault is an error about the scope, or about one of its keys.
func (s scope) fault(name, problem string) *Error {
	if name == "" {
		return &Error{File: s.file, Line: s.line, Key: s.place, Problem: problem}
	}
	k := scopeKeys[slices.IndexFunc(scopeKeys, func(k key) bool { return k.name == name })]
	return s.config.sources[k.path()].faultAt(s.place+"."+name, k.kind.show(s.config), problem)
}
