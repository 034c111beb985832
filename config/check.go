package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/signame"
	"github.com/seed62658d38/watchdog/session"
)

// check compares the settings with each other, after each was read, in the order of the table: a setting that a
// variable has disabled is off when later settings that need it are checked.
func (c *Config) check() []*Error {
	var faults []*Error
	for _, k := range keys {
		faults = append(faults, c.checkKey(k, func(path string) string { return path })...)
	}
	faults = append(faults, c.checkScopes()...)
	faults = append(faults, c.checkWorkflow()...)
	slices.SortStableFunc(faults, func(a, b *Error) int { return cmp.Compare(a.rank(), b.rank()) })
	c.dropWarnings()
	if err := c.Budget.Validate(); err != nil && len(faults) == 0 {
		faults = append(faults, &Error{Problem: fmt.Sprintf("%v (%s)", err, c.origins()), Err: err})
	}
	return faults
}

// rank sorts the lines of the file before the variables.
func (e *Error) rank() int {
	if e.Line == 0 {
		return math.MaxInt
	}
	return e.Line
}

// checkKey returns what is wrong with a setting beside others. At returns the place of a path of the table.
func (c *Config) checkKey(k key, at func(path string) string) []*Error {
	own, set := c.sources[k.path]
	if !set || k.off(c) {
		return nil
	}
	problem := c.unused(k, own, at)
	if problem == "" {
		problem = cmp.Or(c.unreachable(k, own), c.unfit(k, own, at))
	}
	if problem == "" {
		return nil
	}
	path := k.path
	if own.other {
		path = k.block() + "." + k.other
	}
	return []*Error{own.fault(at(path), k.show(c), problem)}
}

// unfit returns why a setting cannot be kept beside others.
func (c *Config) unfit(k key, own source, at func(path string) string) string {
	switch k.path {
	case gracePath:
		return c.tooLong(k)
	case interruptGracePath:
		return c.neverSent(own, syscall.SIGTERM, syscall.SIGKILL)
	case terminateGracePath:
		return c.neverSent(own, syscall.SIGKILL)
	case pacePath:
		return c.tooSlow(k)
	}
	if strings.HasSuffix(k.path, strings.TrimPrefix(reserveCostPath, controlsBlock)) {
		return c.otherCurrency(k.needs[0], at)
	}
	return ""
}

// unused returns why a setting can never take effect: everything that it needs is off. If a variable switched that
// off, unused disables the setting by the same variable, unless the setting has another use.
func (c *Config) unused(k key, own source, at func(path string) string) string {
	var off []string
	var override *source
	for _, path := range k.needs {
		needed := allKeys.key(path)
		if !needed.off(c) {
			return ""
		}
		from := c.sources[path]
		if override == nil && own.overriddenBy(from) {
			override = &from
		}
		off = append(off, from.switchedOff(at(path)))
	}
	switch {
	case len(off) == 0 || override != nil && k.independent:
		return ""
	case override != nil:
		k.disable(c)
		c.sources[k.path] = *override
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
		outer := keys.key(path)
		from := c.sources[path]
		if !c.ends(outer) || own.overriddenBy(from) || k.length(c) < outer.length(c) {
			continue
		}
		return fmt.Sprintf("can never take effect: %s ends the run after %s by %s", path, outer.show(c), from)
	}
	return ""
}

// ends reports whether the first trip of a limit ends the run. Only no progress may have a ladder that begins with
// another directive.
func (c *Config) ends(limit key) bool {
	rungs := c.Budget.Ladders.NoProgress
	gentle := limit.path == noProgressPath && len(rungs) > 0 && rungs[0] != watchdog.DirectiveCancel
	return !limit.off(c) && !gentle
}

// tooLong returns why a grace is longer than its tick.
func (c *Config) tooLong(grace key) string {
	tick := keys.key(tickPath)
	if grace.length(c) <= tick.length(c) {
		return ""
	}
	return fmt.Sprintf("is longer than its budget: %s is %s by %s", tickPath, tick.show(c), c.sources[tickPath])
}

// neverSent returns why the time after a signal can never take effect: with one of these as the first, it is left out.
func (c *Config) neverSent(own source, without ...syscall.Signal) string {
	from, first := c.sources[firstSignalPath], cmp.Or(c.graces.signal, syscall.SIGINT)
	if !slices.Contains(without, first) || own.overriddenBy(from) {
		return ""
	}
	return fmt.Sprintf("can never take effect: %s is %s by %s", firstSignalPath, signame.Name(first), from)
}

// tooLate is what rows do that are written too seldom for their threshold. A sweeper that finds the keeper's lease
// expired judges a session by its row, and a row can be a tenth of the threshold behind its run, or its pace.
const tooLate = "rows would be too far behind their runs"

// tooSlow returns why the keeper would write the rows of live runs too seldom.
func (c *Config) tooSlow(pace key) string {
	threshold := keys.key(stalledPath)
	kept := session.KeeperConfig{} // while the sweeper has none, a session has that of the keeper's default
	if !threshold.off(c) {
		kept.Threshold = threshold.length(c)
	}
	if pace.length(c) <= kept.MaxPace() {
		return ""
	}
	return fmt.Sprintf("is too slow for %s, which is %s by %s: %s; at most %v is soon enough",
		stalledPath, threshold.show(c), c.sources[stalledPath], tooLate, kept.MaxPace())
}

// dropWarnings leaves out warnings that were switched off where there is nothing to warn of.
func (c *Config) dropWarnings() {
	if len(c.Budget.Spend.WarnAt) == 0 && !limitsSpend(c.Budget.Spend) {
		c.Budget.Spend.WarnAt = nil
	}
}

// otherCurrency returns why the reserve of the cost cannot be kept.
func (c *Config) otherCurrency(limit string, at func(path string) string) string {
	currency := c.Budget.Spend.Cost.Currency
	if c.Budget.Spend.Reserve.Cost == 0 || c.reserveCurrency == currency {
		return ""
	}
	return fmt.Sprintf("has another currency than its limit: %s is in %s by %s", at(limit), currency, c.sources[limit])
}
