package storetest_test

import (
	"math"

	"github.com/seed62658d38/watchdog"
)

const (
	oneIDTogether  = "many take at once"
	returnTogether = "many give back at once"
	crowdFits      = "many callers at once"
)

// grants is a fault in what is granted.
func grants(change func(c *call)) fault { return after("fit", change) }

// grantsRequests is a fault in how many requests are granted of some slices.
func grantsRequests(which func(c *call) bool, requests func(c *call) int64) fault {
	return grants(func(c *call) { setIf(which(c), &c.granted.Requests, requests(c)) })
}

// rest is what is left of the requests.
func (c *call) rest() int64 { return c.slice.Limit.Requests - c.charged.Requests }

// unlimited reports whether the requests have no limit.
func (c *call) unlimited() bool { return c.slice.Limit.Requests == watchdog.NoLimit }

// isForced reports whether a slice is charged whether it fits or not.
func isForced(c *call) bool { return c.slice.Force }

// hasShare reports whether a slice is granted a share of what is left.
func hasShare(c *call) bool { return c.fits && !c.slice.Force && !c.unlimited() }

// reaches reports whether a kind that has a limit reaches it.
func reaches(least, limit, charged int64) bool {
	return least > 0 && limit < watchdog.NoLimit && charged+least == limit
}

var fitFaults = []broken{
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
	{"has no column for a kind", "every kind is charged",
		after("charge", func(c *call) { c.sum.ToolCalls -= c.granted.ToolCalls })},
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
	{"charges a share of no limit", "of what has no limit",
		grantsRequests(func(c *call) bool { return c.fits && c.unlimited() },
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
}

// chargesAgain is a fault in which a slice that is taken again is charged once more.
func chargesAgain(which func(c *call) bool, at func(c *call) page, more func(e *entry) totals) fault {
	return before("take again", func(c *call) {
		if which(c) {
			c.l.charged[at(c)] = c.l.charged[at(c)].Add(more(c.e))
		}
	})
}

// answers is a fault in the answer to a slice that was taken before.
func answers(change func(c *call)) fault { return after("take again", change) }

func ownPage(c *call) page { return c.e.at }

func granted(e *entry) totals { return e.granted }

var againFaults = []broken{
	{"charges a slice again", "taken again is charged once", chargesAgain(func(c *call) bool {
		return c.e.granted.Requests == 25 && !c.e.back && c.e.scope == c.slice.Scope
	}, ownPage, granted)},
	{"grants again what is asked for now", "taken again is charged once",
		answers(func(c *call) { c.grant.Granted = c.slice.Least })},
	{"refuses again what does not fit now", "taken again is charged once",
		answers(func(c *call) { setIf(c.slice.Least.Requests > c.slice.Limit.Requests, &c.grant, grant{}) })},
	{"grants a returned slice anew", "again after its return",
		chargesAgain(func(c *call) bool { return c.e.back && c.e.granted.Requests == 25 }, ownPage,
			func(e *entry) totals { return e.returned })},
	{"grants of a returned slice what was kept", "again after its return", answers(func(c *call) {
		setIf(c.e.granted.Requests == 25, &c.grant.Granted, c.e.granted.Sub(c.e.returned))
	})},
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
}

// beforeReturn is a fault in what happens before a slice gives something back.
func beforeReturn(do func(c *call)) fault { return before("give back", do) }

// answersReturn is a fault in which some returns give nothing back.
func answersReturn(err error, which func(c *call) bool) fault { return fails("give back", err, which) }

// unknown is a fault in the answer to a return of what no slice has.
func unknown(err error) fault {
	return after("Return", func(c *call) { setIf(c.e == nil, &c.err, err) })
}

var returnFaults = []broken{
	{"gives back each time", "what is given back fits again",
		beforeReturn(func(c *call) { setIf(c.e.granted.Requests == 40, &c.e.back, false) })},
	{"fails when a slice is returned again", "what is given back fits again",
		answersReturn(errOwn, func(c *call) bool { return c.e.back && c.e.granted.Requests < 50 })},
	{"puts a later return in the place of the first", "what is given back fits again", beforeReturn(func(c *call) {
		if c.e.back && c.unused.Requests < c.e.returned.Requests {
			c.l.charged[c.e.at] = c.l.charged[c.e.at].Add(c.e.returned.Sub(c.unused))
		}
	})},
	{"gives nothing back after another slice of the scope", "of its own slice", answersReturn(nil, func(c *call) (is bool) {
		for _, other := range c.l.slices {
			is = is || other != c.e && other.at == c.e.at && other.back && c.e.granted.Requests == 20
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
}
