package storetest_test

import (
	"math"
	"slices"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract/contracttest"
)

const (
	oneIDTogether  = "a slice that many take at once under one ID is charged once"
	returnTogether = "what many give back at once of one slice is given back once"
	crowdFits      = "many callers at once never exceed the limit, and nothing is lost"
)

type brokenSpends = []contracttest.Broken[watchdog.SpendStore]

func spendFaults() brokenSpends {
	return slices.Concat(fitFaults, againFaults, returnFaults, scopeFaults, windowFaults, spendCallFaults)
}

// granting returns a store that changes what is granted.
func granting(change func(s slice, charged totals, g *offer)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.grants = change })
}

// takesFor returns a store that looks whether another slice fits.
func takesFor(change func(s *slice)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.fits = change })
}

// adding returns a store that charges another sum.
func adding(change func(charged, granted totals, sum *totals)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.adds = change })
}

// again returns a store that does something before it answers to a slice that was taken before.
func again(do func(l *ledger, e *entry, s slice)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.again = func(e *entry, s slice) (grant, error) {
			do(l, e, s)
			return l.answerAgain(e, s)
		}
	})
}

// answers returns a store that changes that answer.
func answers(change func(g *grant, err *error, e *entry, s slice)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.again = func(e *entry, s slice) (grant, error) {
			g, err := l.answerAgain(e, s)
			change(&g, &err, e, s)
			return g, err
		}
	})
}

var fitFaults = brokenSpends{
	{"refuses what reaches the limit", "what is asked for fits up to the limit, and not with one more",
		granting(func(s slice, charged totals, g *offer) {
			input := reaches(s.Least.InputTokens, s.Limit.InputTokens, charged.InputTokens)
			setIf(input || reaches(s.Least.Requests, s.Limit.Requests, charged.Requests), g, offer{})
		})},
	{"allows one more", "what is asked for fits up to the limit, and not with one more",
		granting(func(s slice, charged totals, g *offer) {
			more := s.Limit.Requests > 0 && charged.Requests+s.Least.Requests == s.Limit.Requests+1
			setIf(more, g, offer{s.Least, true})
		})},
	{"mixes up two kinds", "every kind is charged by itself",
		granting(func(_ slice, _ totals, g *offer) {
			g.InputTokens, g.OutputTokens = g.OutputTokens, g.InputTokens
		})},
	{"has no column for a kind", "every kind is charged by itself",
		adding(func(_, granted totals, sum *totals) { sum.ToolCalls -= granted.ToolCalls })},
	{"charges the kinds that fit", "if one kind does not fit, none is charged",
		withFlaw(func(l *ledger) {
			l.named = func(s slice, name string, fits bool) string {
				if at := (page{s.Scope, name}); !fits && s.Least.Turns > 0 && s.Limit.Turns >= s.Least.Turns {
					l.charged[at] = l.charged[at].Add(totals{Turns: s.Least.Turns})
				}
				return name
			}
		})},
	{"knows no limit of cost", "if one kind does not fit, none is charged",
		takesFor(func(s *slice) { s.Limit.Cost = max(s.Limit.Cost, s.Least.Cost) })},
	{"charges what is needed, and no more",
		"a slice is what is asked for, or a sixty-fourth of what is left if that is more",
		granting(func(s slice, _ totals, g *offer) { setIf(g.fits, &g.totals, s.Least) })},
	{"charges a share of the limit",
		"a slice is what is asked for, or a sixty-fourth of what is left if that is more",
		granting(func(s slice, _ totals, g *offer) {
			setIf(hasShare(s, g), &g.Requests, max(g.Requests, s.Limit.Requests/64))
		})},
	{"charges a share beside what is needed",
		"a slice is what is asked for, or a sixty-fourth of what is left if that is more",
		granting(func(s slice, charged totals, g *offer) {
			share := (s.Limit.Requests - charged.Requests) / 64
			setIf(hasShare(s, g) && g.Requests > 0, &g.Requests, s.Least.Requests+share)
		})},
	{"charges a share of no limit", "of what has no limit a slice is what is asked for",
		granting(func(s slice, _ totals, g *offer) {
			none := g.fits && s.Limit.Requests == watchdog.NoLimit
			setIf(none, &g.Requests, max(g.Requests, math.MaxInt64/64))
		})},
	{"lets a sum become negative", "a sum that is too large for a number stays the largest",
		adding(func(charged, granted totals, sum *totals) { sum.Requests = charged.Requests + granted.Requests })},
	{"gives back of a sum that was too large", "a sum that is too large for a number stays the largest",
		givingBack(func(l *ledger, e *entry, unused totals) error {
			err := l.giveBackOnce(e, unused)
			if l.charged[e.at].Requests == math.MaxInt64 {
				l.charged[e.at] = totals{Requests: math.MaxInt64 - unused.Requests}
			}
			return err
		})},
	{"refuses what is forced", "a forced slice is charged with what is asked for, whether it fits or not",
		takesFor(func(s *slice) { s.Force = false })},
	{"charges a share of what is forced", "a forced slice is charged with what is asked for, whether it fits or not",
		granting(func(s slice, charged totals, g *offer) {
			setIf(s.Force, &g.Requests, max(g.Requests, (s.Limit.Requests-charged.Requests)/64))
		})},
	{"charges of what is forced what fits", "a forced slice is charged with what is asked for, whether it fits or not",
		granting(func(s slice, charged totals, g *offer) {
			setIf(s.Force, &g.Requests, min(g.Requests, s.Limit.Requests-charged.Requests))
		})},
	{"charges a share of a negative rest", "above its limit a kind is granted nothing, and less than nothing never",
		granting(func(s slice, charged totals, g *offer) {
			rest := s.Limit.Requests - charged.Requests
			setIf(g.fits && rest < 0 && s.Least.Requests == 0, &g.Requests, rest/64)
		})},
}

// reaches reports whether a kind that has a limit reaches it.
func reaches(least, limit, charged int64) bool {
	return least > 0 && limit < watchdog.NoLimit && charged+least == limit
}

// hasShare reports whether a slice is granted a share of what is left.
func hasShare(s slice, g *offer) bool { return g.fits && !s.Force && s.Limit.Requests < watchdog.NoLimit }

var againFaults = brokenSpends{
	{"charges a slice again", "a slice that is taken again is charged once, and has what was granted then",
		again(func(l *ledger, e *entry, s slice) {
			if e.granted.Requests == 25 && !e.back && e.scope == s.Scope {
				l.charged[e.at] = l.charged[e.at].Add(e.granted)
			}
		})},
	{"grants again what is asked for now", "a slice that is taken again is charged once, and has what was granted then",
		answers(func(g *grant, _ *error, _ *entry, s slice) { g.Granted = s.Least })},
	{"refuses again what does not fit now", "a slice that is taken again is charged once, and has what was granted then",
		answers(func(g *grant, _ *error, _ *entry, s slice) { setIf(s.Least.Requests > s.Limit.Requests, g, grant{}) })},
	{"grants a returned slice anew", "a slice that is taken again after its return is charged no more",
		again(func(l *ledger, e *entry, _ slice) {
			if e.back && e.granted.Requests == 25 {
				l.charged[e.at] = l.charged[e.at].Add(e.returned)
			}
		})},
	{"grants of a returned slice what was kept", "a slice that is taken again after its return is charged no more",
		answers(func(g *grant, _ *error, e *entry, _ slice) {
			setIf(e.granted.Requests == 25, &g.Granted, e.granted.Sub(e.returned))
		})},
	{"remembers what did not fit", "a slice that did not fit can be taken when it does",
		withFlaw(func(l *ledger) {
			refused := map[string]bool{}
			l.grants = func(s slice, _ totals, g *offer) {
				refused[s.ID] = refused[s.ID] || !g.fits && s.Least.Requests == 50
				setIf(refused[s.ID], g, offer{})
			}
		})},
	{"looks an ID up before it writes it", oneIDTogether, withFlaw(func(l *ledger) { l.racesForIDs = true })},
}

// givingBack returns a store that returns slices in another way.
func givingBack(how func(l *ledger, e *entry, unused totals) error) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.giveBack = func(e *entry, unused totals) error { return how(l, e, unused) }
	})
}

// beforeReturn returns a store that does something before it gives back.
func beforeReturn(do func(l *ledger, e *entry, unused *totals)) func() watchdog.SpendStore {
	return givingBack(func(l *ledger, e *entry, unused totals) error {
		do(l, e, &unused)
		return l.giveBackOnce(e, unused)
	})
}

// answersReturn returns a store that does not give back, and answers something, in some returns.
func answersReturn(err error, which func(l *ledger, e *entry, unused totals) bool) func() watchdog.SpendStore {
	return givingBack(func(l *ledger, e *entry, unused totals) error {
		if which(l, e, unused) {
			return err
		}
		return l.giveBackOnce(e, unused)
	})
}

func unknown(err error) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.unknown = err })
}

var returnFaults = brokenSpends{
	{"gives back each time", "what is given back fits again, and is given back once",
		beforeReturn(func(_ *ledger, e *entry, _ *totals) { setIf(e.granted.Requests == 40, &e.back, false) })},
	{"fails when a slice is returned again", "what is given back fits again, and is given back once",
		answersReturn(errOwn, func(_ *ledger, e *entry, _ totals) bool { return e.back && e.granted.Requests < 50 })},
	{"puts a later return in the place of the first", "what is given back fits again, and is given back once",
		beforeReturn(func(l *ledger, e *entry, unused *totals) {
			if e.back && unused.Requests < e.returned.Requests {
				l.charged[e.at] = l.charged[e.at].Add(e.returned.Sub(*unused))
			}
		})},
	{"gives nothing back after another slice of the scope", "a return is of its own slice",
		answersReturn(nil, func(l *ledger, e *entry, _ totals) (is bool) {
			for _, other := range l.slices {
				is = is || other != e && other.at == e.at && other.back && e.granted.Requests == 20
			}
			return is
		})},
	{"says nothing of an unknown slice", "a return of what no slice has is ErrInvalid", unknown(nil)},
	{"has an error of its own for an unknown slice", "a return of what no slice has is ErrInvalid", unknown(errOwn)},
	{"gives back whatever it is told", "no more is given back than was granted, and no less than nothing",
		beforeReturn(func(_ *ledger, e *entry, unused *totals) {
			unused.Requests = min(unused.Requests, e.granted.Requests)
		})},
	{"looks at requests alone when they are returned",
		"no more is given back than was granted, and no less than nothing",
		beforeReturn(func(_ *ledger, _ *entry, unused *totals) { *unused = totals{Requests: unused.Requests} })},
	{"takes a refused return for the one", "no more is given back than was granted, and no less than nothing",
		givingBack(func(l *ledger, e *entry, unused totals) error {
			err := l.giveBackOnce(e, unused)
			e.back = true
			return err
		})},
	{"has an error of its own for a negative return",
		"no more is given back than was granted, and no less than nothing",
		answersReturn(errOwn, func(_ *ledger, _ *entry, unused totals) bool { return unused.Requests < 0 })},
	{"looks up whether a slice was returned before it writes that", returnTogether,
		withFlaw(func(l *ledger) { l.racesToReturn = true })},
}
