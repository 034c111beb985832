package storetest_test

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
)

const (
	oneIDTogether  = "many take at once"
	returnTogether = "many give back at once"
	crowdFits      = "many callers at once"
)

// Faults in the steps of a take and a return.
func grants(change func(c *call)) fault                       { return after("fit", change) }
func answers(change func(c *call)) fault                      { return after("take again", change) }
func finds(change func(c *call)) fault                        { return after("find", change) }
func beforeReturn(do func(c *call)) fault                     { return before("give back", do) }
func answersReturn(err error, which func(c *call) bool) fault { return fails("give back", err, which) }

func grantsRequests(which func(c *call) bool, requests func(c *call) int64) fault {
	return grants(func(c *call) { setIf(which(c), &c.granted.Requests, requests(c)) })
}

// What a slice asks for, of what is left.
func (c *call) rest() int64                           { return c.slice.Limit.Requests - c.charged.Requests }
func (c *call) unlimited() bool                       { return c.slice.Limit.Requests == watchdog.NoLimit }
func (c *call) hasPeriod(period watchdog.Period) bool { return c.slice.Period == period }
func isForced(c *call) bool                           { return c.slice.Force }
func hasShare(c *call) bool                           { return c.fits && !c.slice.Force && !c.unlimited() }

// reaches reports whether a kind that has a limit reaches it.
func reaches(least, limit, charged int64) bool {
	return least > 0 && limit < watchdog.NoLimit && charged+least == limit
}

// chargesAgain is a fault in which a slice that is taken again is charged once more.
func chargesAgain(which func(c *call) bool, at func(c *call) page, more func(e *entry) totals) fault {
	return before("take again", func(c *call) {
		if which(c) {
			c.l.charged[at(c)] = c.l.charged[at(c)].Add(more(c.e))
		}
	})
}

// What is charged again.
func ownPage(c *call) page    { return c.e.at }
func granted(e *entry) totals { return e.granted }

func unknown(err error) fault {
	return after("Return", func(c *call) { setIf(c.e == nil, &c.err, err) })
}

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

func names(name func(c *call) string) fault {
	return after("name", func(c *call) { c.window = name(c) })
}

func validates(change func(s *slice)) fault {
	return before("validate", func(c *call) { change(&c.slice) })
}

func hidesContext(method string) fault {
	return fails(method, errOwn, func(c *call) bool { return c.ctx.Err() != nil })
}

var spendFaults = []broken{
	{"refuses what reaches the limit", "fits up to the limit", grants(func(c *call) {
		least, limit := c.slice.Least, c.slice.Limit
		input := reaches(least.InputTokens, limit.InputTokens, c.charged.InputTokens)
		setIf(input || reaches(least.Requests, limit.Requests, c.charged.Requests), &c.offer, offer{})
	})},
	{"allows one more", "fits up to the limit", grants(func(c *call) {
		more := c.slice.Limit.Requests > 0 && c.rest() == c.slice.Least.Requests-1
		setIf(more, &c.offer, offer{c.slice.Least, true})
	})},
	{"mixes up two kinds", "every kind is charged", grants(func(c *call) {
		c.granted.InputTokens, c.granted.OutputTokens = c.granted.OutputTokens, c.granted.InputTokens
	})},
	{"has no column for a kind", "every kind", after("charge", func(c *call) { c.sum.ToolCalls -= c.granted.ToolCalls })},
	{"charges the kinds that fit", "if one kind does not fit", grants(func(c *call) {
		if turns := c.slice.Least.Turns; !c.fits && turns > 0 && turns <= c.slice.Limit.Turns {
			c.l.charged[c.at] = c.charged.Add(totals{Turns: turns})
		}
	})},
	{"knows no limit of cost", "if one kind does not fit",
		before("fit", func(c *call) { c.slice.Limit.Cost = max(c.slice.Limit.Cost, c.slice.Least.Cost) })},
	{"charges what is needed, and no more", "a sixty-fourth of what is left",
		grants(func(c *call) { setIf(c.fits, &c.granted, c.slice.Least) })},
	{"charges a share of the limit", "a sixty-fourth of what is left",
		grantsRequests(hasShare, func(c *call) int64 { return max(c.granted.Requests, c.slice.Limit.Requests/64) })},
	{"charges a share beside what is needed", "a sixty-fourth of what is left",
		grantsRequests(func(c *call) bool { return hasShare(c) && c.granted.Requests > 0 },
			func(c *call) int64 { return c.slice.Least.Requests + c.rest()/64 })},
	{"charges a share of no limit", "has no limit", grantsRequests(func(c *call) bool { return c.fits && c.unlimited() },
		func(c *call) int64 { return max(c.granted.Requests, math.MaxInt64/64) })},
	{"lets a sum become negative", "too large for a number",
		after("charge", func(c *call) { c.sum.Requests = c.charged.Requests + c.granted.Requests })},
	{"gives back of a sum that was too large", "too large for a number", after("give back", func(c *call) {
		if c.l.charged[c.e.at].Requests == math.MaxInt64 {
			c.l.charged[c.e.at] = totals{Requests: math.MaxInt64 - c.unused.Requests}
		}
	})},
	{"refuses what is forced", "a forced slice", before("fit", func(c *call) { c.slice.Force = false })},
	{"charges a share of what is forced", "a forced slice",
		grantsRequests(isForced, func(c *call) int64 { return max(c.granted.Requests, c.rest()/64) })},
	{"charges of what is forced what fits", "a forced slice",
		grantsRequests(isForced, func(c *call) int64 { return min(c.granted.Requests, c.rest()) })},
	{"charges a share of a negative rest", "above its limit",
		grantsRequests(func(c *call) bool { return c.fits && c.rest() < 0 && c.slice.Least.Requests == 0 },
			func(c *call) int64 { return c.rest() / 64 })},
	{"charges a slice again", "again is charged", chargesAgain(func(c *call) bool {
		return c.e.granted.Requests == 25 && !c.e.back && c.e.scope == c.slice.Scope
	}, ownPage, granted)},
	{"grants again what is asked for now", "again is charged", answers(func(c *call) { c.grant.Granted = c.slice.Least })},
	{"refuses again what does not fit now", "again is charged",
		answers(func(c *call) { setIf(c.slice.Least.Requests > c.slice.Limit.Requests, &c.grant, grant{}) })},
	{"grants a returned slice anew", "again is charged",
		chargesAgain(func(c *call) bool { return c.e.back && c.e.granted.Requests == 25 }, ownPage,
			func(e *entry) totals { return e.returned })},
	{"grants of a returned slice what was kept", "again is charged",
		answers(func(c *call) { setIf(c.e.granted.Requests == 25, &c.grant.Granted, c.e.granted.Sub(c.e.returned)) })},
	{"remembers what did not fit", "a slice that did not fit", func() alteration {
		refused := map[string]bool{}
		return grants(func(c *call) {
			refused[c.slice.ID] = refused[c.slice.ID] || !c.fits && c.slice.Least.Requests == 50
			setIf(refused[c.slice.ID], &c.offer, offer{})
		})()
	}},
	{"looks an ID up before it writes it", oneIDTogether, after("look up", func(c *call) {
		if c.e == nil {
			c.l.meet(c.slice.ID)
		}
	})},
	{"gives back each time", "given back of a slice",
		beforeReturn(func(c *call) { setIf(c.e.granted.Requests == 40, &c.e.back, false) })},
	{"fails when a slice is returned again", "given back of a slice",
		answersReturn(errOwn, func(c *call) bool { return c.e.back && c.e.granted.Requests < 50 })},
	{"puts a later return in the place of the first", "given back of a slice", beforeReturn(func(c *call) {
		if c.e.back && c.unused.Requests < c.e.returned.Requests {
			c.l.charged[c.e.at] = c.l.charged[c.e.at].Add(c.e.returned.Sub(c.unused))
		}
	})},
	{"gives nothing back after another slice of the scope", "back of a slice", answersReturn(nil, func(c *call) (is bool) {
		for _, other := range c.l.slices {
			is = is || other != c.e && other.at == c.e.at && other.back && c.e.granted.Requests == 35
		}
		return is
	})},
	{"says nothing of an unknown slice", "what no slice has", unknown(nil)},
	{"has an error of its own for an unknown slice", "what no slice has", unknown(errOwn)},
	{"gives back whatever it is told", "no more is given back",
		beforeReturn(func(c *call) { c.unused.Requests = min(c.unused.Requests, c.e.granted.Requests) })},
	{"looks at requests alone when they are returned", "no more is given back",
		beforeReturn(func(c *call) { c.unused = totals{Requests: c.unused.Requests} })},
	{"takes a refused return for the one", "no more is given back", after("give back", func(c *call) { c.e.back = true })},
	{"has an error of its own for a negative return", "no more is given back",
		answersReturn(errOwn, func(c *call) bool { return c.unused.Requests < 0 })},
	{"looks up whether a slice was returned before it writes that", returnTogether,
		before("discharge", func(c *call) { c.l.meet(c.e.scope) })},
	{"does not tell scopes apart by case", "scopes are charged apart", chargesTo(strings.ToLower)},
	{"drops the blanks at the end of a scope", "scopes are charged apart", chargesTo(strings.TrimSpace)},
	{"lets two scopes share a slice", "charged to another scope",
		around("take again", func(c *call, _ func()) { c.grant = c.l.grant(c.e) })},
	{"knows IDs by their scope", "to another scope", chargesAgain(func(c *call) bool { return c.e.scope != c.slice.Scope },
		func(c *call) page { return page{c.slice.Scope, c.e.at.window} }, granted)},
	{"has an error of its own for an ID of another scope", "another scope", answers(func(c *call) { c.err = own(c.err) })},
	{"adds euros and dollars", "a scope has one currency", currencies(func(c *call, late bool) {
		if !late {
			c.currency, c.err = c.known+c.slice.Currency, nil
		}
	})},
	{"has one currency for all scopes", "a scope has one currency", finds(func(c *call) { c.account = "" })},
	{"has a currency for each window", "has one currency", finds(func(c *call) { c.account += string(c.slice.Period) })},
	{"takes no currency for one", "a scope has one currency", currencies(func(c *call, _ bool) {
		none := c.known != "" && c.slice.Currency == "" && c.slice.Least.Requests == 0
		setIf(none, &c.err, fmt.Errorf("%w slice: no currency", watchdog.ErrInvalid))
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
	{"does not look at a slice's ID", "an invalid slice", validates(func(s *slice) { s.ID = "a" })},
	{"does not look at a slice's scope", "an invalid slice", validates(func(s *slice) { s.Scope = "a" })},
	{"does not look at a slice's zone", "an invalid slice", validates(func(s *slice) { s.Zone = "" })},
	{"has an error of its own for an invalid slice", "an invalid slice",
		after("validate", func(c *call) { c.err = own(c.err) })},
	{"ignores the context of a take", "a take or a return with", ignoresContext("Take")},
	{"charges and then returns the context's error", "a take or a return with", looksAtContextLate("Take")},
	{"has an error of its own for a take with a done context", "a take or a return with", hidesContext("Take")},
	{"ignores the context of a return", "a take or a return with", ignoresContext("Return")},
	{"gives back and then returns the context's error", "a take or a return with", looksAtContextLate("Return")},
	{"has an error of its own for a return with a done context", "a take or a return with", hidesContext("Return")},
	{"reads what is charged before it writes it", crowdFits, before("charge", func(c *call) { c.l.meet(c.slice.Scope) })},
}
