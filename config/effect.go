package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"syscall"

	"github.com/seed62658d38/watchdog"
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
	faults = append(faults, c.checkScopes()...)
	faults = append(faults, c.checkWorkflow()...)
	slices.SortStableFunc(faults, func(a, b *Error) int { return cmp.Compare(a.rank(), b.rank()) })
	c.adoptWarnings()
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

func (c *Config) checkKey(k key) *Error {
	own, set := c.sources[k.path()]
	if !set || k.kind.off(c) {
		return nil
	}
	problem := c.unused(k, own)
	if problem == "" {
		problem = c.unreachable(k, own)
	}
	if problem == "" {
		problem = c.unfit(k, own)
	}
	if problem == "" {
		return nil
	}
	return own.fault(k, k.kind.show(c), problem)
}

// unfit returns why a setting cannot be kept beside others.
func (c *Config) unfit(k key, own source) string {
	switch k.path() {
	case gracePath:
		return c.tooLong(k)
	case interruptGracePath:
		return c.neverSent(own, syscall.SIGTERM, syscall.SIGKILL)
	case terminateGracePath:
		return c.neverSent(own, syscall.SIGKILL)
	case keeperThresholdPath:
		return cmp.Or(c.tooLongForSweeper(k), c.tooShortForPace(k))
	case reserveCostPath:
		return c.otherCurrency()
	case pacePath:
		return c.tooSlow(k)
	}
	return ""
}

// overriddenBy reports whether a variable may leave this setting of the file without effect.
func (s source) overriddenBy(other source) bool { return other.variable != "" && s.variable == "" }

// unused returns why a setting can never take effect: everything that it needs is off. If a variable switched that
// off, unused disables the setting by the same variable, unless the setting has another use.
func (c *Config) unused(k key, own source) string {
	var off []string
	var override *source
	for _, path := range k.needs {
		needed, _ := keyAt(path)
		if !needed.kind.off(c) {
			return ""
		}
		from := c.sources[path]
		if override == nil && own.overriddenBy(from) {
			override = &from
		}
		off = append(off, from.switchedOff(path))
	}
	if override != nil && k.independent {
		return ""
	}
	if override != nil {
		k.kind.(dependent).disable(c)
		c.sources[k.path()] = *override
		return ""
	}
	switch {
	case len(off) == 0:
		return ""
	case k.lacks != "":
		return "can never take effect: " + k.lacks
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
		outer, _ := keyAt(path)
		from := c.sources[path]
		if !c.ends(outer) || own.overriddenBy(from) || c.length(k) < c.length(outer) {
			continue
		}
		return fmt.Sprintf("can never take effect: %s ends the run after %s by %s", path, outer.kind.show(c), from)
	}
	return ""
}

// ends reports whether the first trip of a limit ends the run. Only no progress may have a ladder that begins with
// another directive.
func (c *Config) ends(limit key) bool {
	rungs := c.Budget.Ladders.NoProgress
	gentle := limit.path() == noProgressPath && len(rungs) > 0 && rungs[0] != watchdog.DirectiveCancel
	return !limit.kind.off(c) && !gentle
}

// tooLong returns why a grace is longer than its tick.
func (c *Config) tooLong(grace key) string {
	tick, _ := keyAt(tickPath)
	if c.length(grace) <= c.length(tick) {
		return ""
	}
	return fmt.Sprintf("is longer than its budget: %s is %s by %s", tickPath, tick.kind.show(c), c.sources[tickPath])
}

// neverSent returns why the time after a signal can never take effect: with one of these as the first, it is left out.
func (c *Config) neverSent(own source, without ...syscall.Signal) string {
	from := c.sources[firstSignalPath]
	if !slices.Contains(without, c.graces.first()) || own.overriddenBy(from) {
		return ""
	}
	return fmt.Sprintf("can never take effect: %s is %s by %s", firstSignalPath, firstSignal{}.show(c), from)
}
