package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

// check compares the settings with each other, after each was read, in the order of the table: a setting that a
// variable has disabled is off when later settings that need it are checked.
func (c *Config) check() []*Error {
	var faults []*Error
	for _, k := range keys {
		if fault := c.checkKey(k); fault != nil {
			faults = append(faults, fault)
		}
	}
	faults = append(faults, c.checkWorkflow()...)
	slices.SortStableFunc(faults, func(a, b *Error) int { // the lines of the file before the variables
		return cmp.Compare(uint(a.Line)-1, uint(b.Line)-1)
	})
	if len(c.Budget.Spend.WarnAt) == 0 && !c.limitsSpend() { // switched off, where there is nothing to warn of
		c.Budget.Spend.WarnAt = nil
	}
	if err := c.Budget.Validate(); err != nil && len(faults) == 0 {
		faults = append(faults, &Error{Problem: fmt.Sprintf("%v (%s)", err, c.origins()), Err: err})
	}
	return faults
}

// checkKey returns what is wrong with a setting beside others, nil if nothing is.
func (c *Config) checkKey(k key) *Error {
	own, set := c.sources[k.path]
	if !set || k.off(c) {
		return nil
	}
	problem := c.unused(k, own, func(path string) string { return path })
	if problem == "" {
		problem = cmp.Or(c.unreachable(k, own), c.unfit(k, own))
	}
	if problem == "" {
		return nil
	}
	path := k.path
	if own.other {
		path = k.otherPath
	}
	return own.fault(path, k.show(c), problem)
}

// unfit returns why a setting cannot be kept beside others. A sweeper that finds the keeper's lease expired judges a
// session by its row, and a row can be a tenth of the threshold behind its run, or its pace.
func (c *Config) unfit(k key, own source) string {
	is := func(path, how string) string {
		return fmt.Sprintf("%s%s is %s by %s", path, how, keys.key(path).show(c), c.sources[path])
	}
	swept, kept := keys.key(stalledPath), session.KeeperConfig{} // without one, a session has that of the keeper's default
	if !swept.off(c) {
		kept.Threshold = swept.length(c)
	}
	signal := cmp.Or(c.graces.signal, syscall.SIGINT) // the times after those that it leaves out are never waited for
	leftOut := k.path == interruptGracePath && signal == syscall.SIGTERM ||
		(k.path == interruptGracePath || k.path == terminateGracePath) && signal == syscall.SIGKILL
	currency := c.Budget.Spend.Cost.Currency
	return first([]when{
		{k.path == gracePath && k.length(c) > keys.key(tickPath).length(c), "is longer than its budget: " + is(tickPath, "")},
		{leftOut && !own.overriddenBy(c.sources[firstSignalPath]), "can never take effect: " + is(firstSignalPath, "")},
		{k.path == pacePath && k.length(c) > kept.MaxPace(), fmt.Sprintf("is too slow for %s: rows would be too far behind "+
			"their runs; at most %v is soon enough", is(stalledPath, ", which"), kept.MaxPace())},
		{k.path == reserveCostPath && c.Budget.Spend.Reserve.Cost != 0 && c.reserveCurrency != currency,
			fmt.Sprintf("has another currency than its limit: %s is in %s by %s", costPath, currency, c.sources[costPath])},
	})
}

// unused returns why a setting can never take effect: everything that it needs is off. If a variable switched that
// off, unused disables the setting by the same variable, unless the setting has another use.
func (c *Config) unused(k key, own source, at func(path string) string) string {
	var off []string
	var override source
	for _, path := range k.needs {
		from := c.sources[path]
		if !allKeys.key(path).off(c) {
			return ""
		}
		if override.variable == "" && own.overriddenBy(from) {
			override = from
		}
		off = append(off, from.switchedOff(at(path)))
	}
	switch overridden := override.variable != ""; {
	case overridden && !k.independent:
		k.disable(c)
		c.sources[k.path] = override
		return ""
	case overridden || len(off) == 0:
		return ""
	case k.name() == "warn_at" && len(off) > 1:
		return "can never take effect: " + spendBlock + " has no limit"
	}
	return "can never take effect: " + strings.Join(off, " and ")
}

// unreachable returns why a limit can never be exceeded: another limit, at most as long, ends the run first. Under its
// other name a limit may be as long: a file of the system that has that name is read as it is.
func (c *Config) unreachable(k key, own source) string {
	if own.other {
		return ""
	}
	for _, path := range k.within {
		outer, from := keys.key(path), c.sources[path]
		if c.ends(outer) && !own.overriddenBy(from) && k.length(c) >= outer.length(c) {
			return fmt.Sprintf("can never take effect: %s ends the run after %s by %s", path, outer.show(c), from)
		}
	}
	return ""
}

// ends reports whether the first trip of a limit ends the run. Only a ladder of no progress may begin in another way.
func (c *Config) ends(limit key) bool {
	rungs := c.Budget.Ladders.NoProgress
	gentle := limit.path == noProgressPath && len(rungs) > 0 && rungs[0] != watchdog.DirectiveCancel
	return !limit.off(c) && !gentle
}
