package config

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/seed62658d38/watchdog"
)

// check holds the settings against each other, now that each by itself is right, in the order of the table: a setting
// that a variable has put to rest is not in force when those that need it are looked at.
func (c *Config) check() []*Error {
	var faults []*Error
	for _, k := range keys {
		if fault := c.checkKey(k); fault != nil {
			faults = append(faults, fault)
		}
	}
	slices.SortStableFunc(faults, func(a, b *Error) int { return cmp.Compare(a.rank(), b.rank()) })
	if err := c.Budget.Validate(); err != nil && len(faults) == 0 {
		faults = append(faults, &Error{Problem: fmt.Sprintf("%v (%s)", err, c.origins()), Err: err})
	}
	return faults
}

// rank puts the lines of the file before the variables.
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
	problem := c.needless(k, own)
	if problem == "" {
		problem = c.unreachable(k, own)
	}
	if problem == "" && k.path() == gracePath {
		problem = c.excessive(k)
	}
	if problem == "" {
		return nil
	}
	return own.fault(k, k.kind.show(c), problem)
}

// yieldsTo reports whether a setting of the file gives way to a variable: it may take the effect from what the file
// tunes. That is what variables are for.
func (s source) yieldsTo(other source) bool { return other.variable != "" && s.variable == "" }

// needless says why a setting can never take effect: all that it tunes is off. If a variable switched that off, the
// setting rests: it goes off by the same variable, unless it is of use besides.
func (c *Config) needless(k key, own source) string {
	var off []string
	var rests *source
	for _, path := range k.needs {
		needed, _ := keyAt(path)
		if !needed.kind.off(c) {
			return ""
		}
		from := c.sources[path]
		if rests == nil && own.yieldsTo(from) {
			rests = &from
		}
		off = append(off, from.switchedOff(path))
	}
	if rests != nil && k.stays {
		return ""
	}
	if rests != nil {
		k.kind.(tuning).rest(c)
		c.sources[k.path()] = *rests
		return ""
	}
	if len(off) == 0 {
		return ""
	}
	return "can never take effect: " + strings.Join(off, " and ")
}

// unreachable says why a limit can never be exceeded: another that runs at least as long as it ends the run no later.
func (c *Config) unreachable(k key, own source) string {
	for _, path := range k.within {
		outer, _ := keyAt(path)
		from := c.sources[path]
		if !c.ends(outer) || own.yieldsTo(from) || c.length(k) < c.length(outer) {
			continue
		}
		return fmt.Sprintf("can never take effect: %s ends the run after %s by %s", path, outer.kind.show(c), from)
	}
	return ""
}

// ends reports whether the first trip of a limit ends the run. No progress may have a ladder that asks for something
// less; the others that a key is within have none.
func (c *Config) ends(limit key) bool {
	rungs := c.Budget.Ladders.NoProgress
	gentle := limit.path() == noProgressPath && len(rungs) > 0 && rungs[0] != watchdog.DirectiveCancel
	return !limit.kind.off(c) && !gentle
}

// excessive says that a grace is longer than what it is the grace of.
func (c *Config) excessive(grace key) string {
	tick, _ := keyAt(tickPath)
	if c.length(grace) <= c.length(tick) {
		return ""
	}
	return fmt.Sprintf("is longer than its budget: %s is %s by %s", tickPath, tick.kind.show(c), c.sources[tickPath])
}
