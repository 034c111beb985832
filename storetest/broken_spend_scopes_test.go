package storetest_test

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
)

// finds is a fault in where a slice is charged.
func finds(change func(c *call)) fault { return after("find", change) }

// chargesTo is a fault in which another scope is charged.
func chargesTo(scope func(scope string) string) fault {
	return finds(func(c *call) { c.at.scope = scope(c.at.scope) })
}

// currencies is a fault in the currency of a scope. It is a late one if the scope had none at first.
func currencies(change func(c *call, late bool)) fault {
	return func() alteration {
		late := map[string]bool{}
		return after("agree", func(c *call) {
			scope := c.slice.Scope
			late[scope] = late[scope] || c.known == "" && c.slice.Currency == "" && c.slice.Least.Cost > 0
			change(c, late[scope])
		})()
	}
}

var scopeFaults = []broken{
	{"does not tell scopes apart by case", "scopes are charged apart", chargesTo(strings.ToLower)},
	{"drops the blanks at the end of a scope", "scopes are charged apart", chargesTo(strings.TrimSpace)},
	{"lets two scopes share a slice", "charged to another scope",
		around("take again", func(c *call, _ func()) { c.grant = c.l.grant(c.e) })},
	{"knows IDs by their scope", "charged to another scope",
		chargesAgain(func(c *call) bool { return c.e.scope != c.slice.Scope },
			func(c *call) page { return page{c.slice.Scope, c.e.at.window} }, granted)},
	{"has an error of its own for an ID of another scope", "charged to another scope",
		answers(func(c *call) { c.err = own(c.err) })},
	{"adds euros and dollars", "a scope has one currency", currencies(func(c *call, late bool) {
		if !late {
			c.currency, c.err = c.known+c.slice.Currency, nil
		}
	})},
	{"has one currency for all scopes", "a scope has one currency", finds(func(c *call) { c.account = "" })},
	{"has a currency for each window", "a scope has one currency",
		finds(func(c *call) { c.account += string(c.slice.Period) })},
	{"takes no currency for one", "a scope has one currency", currencies(func(c *call, _ bool) {
		if c.known != "" && c.slice.Currency == "" && c.slice.Least.Requests == 0 {
			c.err = fmt.Errorf("%w slice: no currency", watchdog.ErrInvalid)
		}
	})},
	{"has an error of its own for another currency", "a scope has one currency",
		currencies(func(c *call, late bool) { setIf(!late, &c.err, own(c.err)) })},
	{"never learns the currency of a scope", "that had no currency",
		currencies(func(c *call, late bool) { setIf(late, &c.currency, "") })},
	{"cuts a scope to fit", "IDs and scopes are kept",
		chargesTo(func(scope string) string { return string([]rune(scope)[:min(254, len([]rune(scope)))]) })},
	{"normalizes a scope", "IDs and scopes are kept",
		chargesTo(func(scope string) string { return strings.ReplaceAll(scope, "e\u0301", "é") })},
	{"cannot write a quote", "IDs and scopes are kept",
		validates(func(s *slice) { setIf(strings.Contains(s.Scope, "'"), &s.Scope, "") })},
	{"does not tell IDs apart by case", "IDs that differ in case are different slices",
		before("look up", func(c *call) { setIf(len(c.slice.ID) == 2, &c.slice.ID, strings.ToLower(c.slice.ID)) })},
}

// names is a fault in the names of windows.
func names(name func(c *call) string) fault {
	return after("name", func(c *call) { c.window = name(c) })
}

// hasPeriod reports whether a slice has this period.
func (c *call) hasPeriod(period watchdog.Period) bool { return c.slice.Period == period }

var windowFaults = []broken{
	{"has a window for each slice", "slices of one period",
		finds(func(c *call) { setIf(!c.hasPeriod(watchdog.PeriodNone), &c.at.window, c.slice.ID) })},
	{"has windows without an end", "slices of one period", finds(func(c *call) { c.ends = time.Time{} })},
	{"has windows that have ended", "slices of one period",
		finds(func(c *call) { setIf(!c.hasPeriod(watchdog.PeriodNone), &c.ends, c.ends.AddDate(-1, 0, 0)) })},
	{"has hours of a day", "slices of one period",
		finds(func(c *call) { setIf(c.hasPeriod(watchdog.PeriodHour), &c.ends, c.ends.AddDate(0, 0, 1)) })},
	{"ends what has no period", "a slice without a period",
		finds(func(c *call) { setIf(c.hasPeriod(watchdog.PeriodNone), &c.ends, time.Now().Add(time.Hour)) })},
	{"ends it when it is asked again", "a slice without a period", answers(func(c *call) { c.grant.Ends = 0 })},
	{"has one window for all periods", "the periods of a scope",
		finds(func(c *call) { setIf(strings.HasPrefix(c.slice.ID, "slice-"), &c.at.window, "") })},
	{"gives back in the window without an end", "in its own window", beforeReturn(func(c *call) { c.e.at.window = "" })},
	{"names no window", "a grant names", names(func(*call) string { return "" })},
	{"names a window by its period", "a grant names", names(func(c *call) string { return string(c.slice.Period) })},
	{"names a window by the slice", "a grant names", names(func(c *call) string { return c.slice.ID })},
	{"names what counts for ever", "a grant names", names(func(c *call) string { return cmp.Or(c.window, "ever") })},
	{"names no window of what does not fit", "a grant names",
		after("name", func(c *call) { setIf(!c.fits, &c.window, "") })},
	{"names no window when it is asked again", "a grant names", answers(func(c *call) { c.grant.Window = "" })},
}

// validates is a fault in which something else is validated.
func validates(change func(s *slice)) fault {
	return before("validate", func(c *call) { change(&c.slice) })
}

// hidesContext is a fault in which a method has an error of its own for a context that is done.
func hidesContext(method string) fault {
	return fails(method, errOwn, func(c *call) bool { return c.ctx.Err() != nil })
}

var spendCallFaults = []broken{
	{"does not look at a slice's ID", "an invalid slice", validates(func(s *slice) { s.ID = "a" })},
	{"does not look at a slice's scope", "an invalid slice", validates(func(s *slice) { s.Scope = "a" })},
	{"does not look at a slice's zone", "an invalid slice", validates(func(s *slice) { s.Zone = "" })},
	{"has an error of its own for an invalid slice", "an invalid slice",
		after("validate", func(c *call) { c.err = own(c.err) })},
	{"ignores the context of a take", "a take with a done context", ignoresContext("Take")},
	{"charges and then returns the context's error", "a take with a done context", looksAtContextLate("Take")},
	{"has an error of its own for a take with a done context", "a take with a done context", hidesContext("Take")},
	{"ignores the context of a return", "a return with a done context", ignoresContext("Return")},
	{"gives back and then returns the context's error", "a return with a done context", looksAtContextLate("Return")},
	{"has an error of its own for a return with a done context", "a return with a done context", hidesContext("Return")},
	{"reads what is charged before it writes it", crowdFits, before("charge", func(c *call) { c.l.meet(c.slice.Scope) })},
}
