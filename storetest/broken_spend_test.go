package storetest_test

import (
	"math"
	"slices"

	"github.com/seed62658d38/watchdog"
)

const (
	oneIDTogether  = "a slice that many take at once under one ID is charged once"
	returnTogether = "what many give back at once of one slice is given back once"
	crowdFits      = "many callers at once never exceed the limit, and nothing is lost"
)

func spendFaults() brokenSpends {
	return slices.Concat(fitFaults, againFaults, returnFaults, scopeFaults, windowFaults, spendCallFaults)
}

var fitFaults = brokenSpends{
	{"refuses what reaches the limit", "what is asked for fits up to the limit, and not with one more",
		granting(func(s slice, charged totals, g *offer) {
			if reaches(s.Least.InputTokens, s.Limit.InputTokens, charged.InputTokens) ||
				reaches(s.Least.Requests, s.Limit.Requests, charged.Requests) {
				*g = offer{}
			}
		})},
	{"allows one more", "what is asked for fits up to the limit, and not with one more",
		granting(func(s slice, charged totals, g *offer) {
			if s.Limit.Requests > 0 && charged.Requests+s.Least.Requests == s.Limit.Requests+1 {
				*g = offer{s.Least, true}
			}
		})},
	{"mixes up two kinds", "every kind is charged by itself",
		granting(func(_ slice, _ totals, g *offer) {
			g.InputTokens, g.OutputTokens = g.OutputTokens, g.InputTokens
		})},
	{"has no column for a kind", "every kind is charged by itself",
		adding(func(_, granted, sum *totals) { sum.ToolCalls -= granted.ToolCalls })},
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
		granting(func(s slice, _ totals, g *offer) {
			if g.fits {
				g.Totals = s.Least
			}
		})},
	{"charges a share of the limit", "a slice is what is asked for, or a sixty-fourth of what is left if that is more",
		granting(func(s slice, _ totals, g *offer) {
			if g.fits && !s.Force && s.Limit.Requests < watchdog.NoLimit {
				g.Requests = max(g.Requests, s.Limit.Requests/64)
			}
		})},
	{"charges a share beside what is needed",
		"a slice is what is asked for, or a sixty-fourth of what is left if that is more",
		granting(func(s slice, charged totals, g *offer) {
			if g.fits && !s.Force && s.Limit.Requests < watchdog.NoLimit && g.Requests > 0 {
				g.Requests = s.Least.Requests + (s.Limit.Requests-charged.Requests)/64
			}
		})},
	{"charges a share of no limit", "of what has no limit a slice is what is asked for",
		granting(func(s slice, _ totals, g *offer) {
			if g.fits && s.Limit.Requests == watchdog.NoLimit {
				g.Requests = max(g.Requests, math.MaxInt64/64)
			}
		})},
	{"lets a sum become negative", "a sum that is too large for a number stays the largest",
		adding(func(charged, granted, sum *totals) {
			sum.Requests = charged.Requests + granted.Requests
		})},
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
			if s.Force {
				g.Requests = max(g.Requests, (s.Limit.Requests-charged.Requests)/64)
			}
		})},
	{"charges of what is forced what fits", "a forced slice is charged with what is asked for, whether it fits or not",
		granting(func(s slice, charged totals, g *offer) {
			if s.Force {
				g.Requests = min(g.Requests, s.Limit.Requests-charged.Requests)
			}
		})},
	{"charges a share of a negative rest", "above its limit a kind is granted nothing, and less than nothing never",
		granting(func(s slice, charged totals, g *offer) {
			if rest := s.Limit.Requests - charged.Requests; g.fits && rest < 0 && s.Least.Requests == 0 {
				g.Requests = rest / 64
			}
		})},
}

// reaches reports whether a kind that has a limit reaches it.
func reaches(least, limit, charged int64) bool {
	return least > 0 && limit < watchdog.NoLimit && charged+least == limit
}

// An offer is what is granted of a slice, and whether it fits.
type offer struct {
	watchdog.Totals
	fits bool
}

// granting returns a store that changes what is granted.
func granting(change func(s slice, charged totals, g *offer)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.fit = func(s slice, charged totals) (totals, bool) {
			granted, fits := s.Fit(charged)
			g := offer{granted, fits}
			change(s, charged, &g)
			return g.Totals, g.fits
		}
	})
}

// takesFor returns a store that looks whether another slice fits.
func takesFor(change func(s *slice)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.fit = func(s slice, charged totals) (totals, bool) {
			change(&s)
			return s.Fit(charged)
		}
	})
}

// adding returns a store that charges another sum.
func adding(change func(charged, granted, sum *totals)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.add = func(charged, granted totals) totals {
			sum := charged.Add(granted)
			change(&charged, &granted, &sum)
			return sum
		}
	})
}

var againFaults = brokenSpends{
	{"charges a slice again", "a slice that is taken again is charged once, and has what was granted then",
		again(func(l *ledger, e *entry, s slice) {
			if e.granted.Requests == 25 && !e.back && e.scope == s.Scope {
				l.charged[e.at] = l.charged[e.at].Add(e.granted)
			}
		})},
	{"grants again what is asked for now", "a slice that is taken again is charged once, and has what was granted then",
		answers(func(g *grant, _ *entry, s slice) { g.Granted = s.Least })},
	{"refuses again what does not fit now", "a slice that is taken again is charged once, and has what was granted then",
		answers(func(g *grant, _ *entry, s slice) {
			if s.Least.Requests > s.Limit.Requests {
				g.Fits, g.Granted = false, totals{}
			}
		})},
	{"grants a returned slice anew", "a slice that is taken again after its return is charged no more",
		again(func(l *ledger, e *entry, _ slice) {
			if e.back && e.granted.Requests == 25 {
				l.charged[e.at] = l.charged[e.at].Add(e.returned)
			}
		})},
	{"grants of a returned slice what was kept", "a slice that is taken again after its return is charged no more",
		answers(func(g *grant, e *entry, _ slice) {
			if e.granted.Requests == 25 {
				g.Granted = e.granted.Sub(e.returned)
			}
		})},
	{"remembers what did not fit", "a slice that did not fit can be taken when it does",
		withFlaw(func(l *ledger) {
			refused := map[string]bool{}
			l.fit = func(s slice, charged totals) (totals, bool) {
				granted, fits := s.Fit(charged)
				refused[s.ID] = refused[s.ID] || !fits && s.Least.Requests == 50
				return granted, fits && !refused[s.ID]
			}
		})},
	{"looks an ID up before it writes it", oneIDTogether, withFlaw(func(l *ledger) { l.racesForIDs = true })},
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
func answers(change func(g *grant, e *entry, s slice)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.again = func(e *entry, s slice) (grant, error) {
			g, err := l.answerAgain(e, s)
			change(&g, e, s)
			return g, err
		}
	})
}

var returnFaults = brokenSpends{
	{"gives back each time", "what is given back fits again, and is given back once",
		beforeReturn(func(_ *ledger, e *entry, _ *totals) {
			if e.granted.Requests == 40 {
				e.back = false
			}
		})},
	{"fails when a slice is returned again", "what is given back fits again, and is given back once",
		givingBack(func(l *ledger, e *entry, unused totals) error {
			if e.back && e.granted.Requests < 50 {
				return errOwn
			}
			return l.giveBackOnce(e, unused)
		})},
	{"puts a later return in the place of the first", "what is given back fits again, and is given back once",
		beforeReturn(func(l *ledger, e *entry, unused *totals) {
			if e.back && unused.Requests < e.returned.Requests {
				l.charged[e.at] = l.charged[e.at].Add(e.returned.Sub(*unused))
			}
		})},
	{"gives nothing back after another slice of the scope", "a return is of its own slice",
		givingBack(func(l *ledger, e *entry, unused totals) error {
			for _, other := range l.slices {
				if other != e && other.at == e.at && other.back && e.granted.Requests == 20 {
					return nil
				}
			}
			return l.giveBackOnce(e, unused)
		})},
	{"says nothing of an unknown slice", "a return of what no slice has is ErrInvalid", unknown(nil)},
	{"has an error of its own for an unknown slice", "a return of what no slice has is ErrInvalid", unknown(errOwn)},
	{"gives back whatever it is told", "no more is given back than was granted, and no less than nothing",
		beforeReturn(func(_ *ledger, e *entry, unused *totals) {
			unused.Requests = min(unused.Requests, e.granted.Requests)
		})},
	{"looks at requests alone when they are returned", "no more is given back than was granted, and no less than nothing",
		beforeReturn(func(_ *ledger, _ *entry, unused *totals) {
			*unused = totals{Requests: unused.Requests}
		})},
	{"takes a refused return for the one", "no more is given back than was granted, and no less than nothing",
		givingBack(func(l *ledger, e *entry, unused totals) error {
			err := l.giveBackOnce(e, unused)
			e.back = true
			return err
		})},
	{"has an error of its own for a negative return", "no more is given back than was granted, and no less than nothing",
		givingBack(func(l *ledger, e *entry, unused totals) error {
			if unused.Requests < 0 {
				return errOwn
			}
			return l.giveBackOnce(e, unused)
		})},
	{"looks up whether a slice was returned before it writes that", returnTogether,
		withFlaw(func(l *ledger) { l.racesToReturn = true })},
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

func unknown(err error) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.unknown = err })
}
