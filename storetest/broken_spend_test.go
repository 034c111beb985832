package storetest_test

import (
	"math"

	"github.com/seed62658d38/watchdog"
)

const (
	oneIDTogether  = "a slice that many take at once under one ID is charged once"
	returnTogether = "what many give back at once of one slice is given back once"
	crowdFits      = "many callers at once never exceed the limit, and nothing is lost"
)

func spendFaults() faults[watchdog.SpendStore] {
	return joined(fitFaults, againFaults, returnFaults, scopeFaults, windowFaults, spendCallFaults)
}

var fitFaults = faults[watchdog.SpendStore]{
	"what is asked for fits up to the limit, and not with one more": {
		{"refuses what reaches the limit", granting(func(s slice, charged, g totals, fits bool) (totals, bool) {
			if reaches(s.Least.InputTokens, s.Limit.InputTokens, charged.InputTokens) ||
				reaches(s.Least.Requests, s.Limit.Requests, charged.Requests) {
				return totals{}, false
			}
			return g, fits
		})},
		{"allows one more", granting(func(s slice, charged, g totals, fits bool) (totals, bool) {
			if s.Limit.Requests > 0 && charged.Requests+s.Least.Requests == s.Limit.Requests+1 {
				return s.Least, true
			}
			return g, fits
		})},
	},
	"every kind is charged by itself": {
		{"mixes up two kinds", granting(func(_ slice, _, g totals, fits bool) (totals, bool) {
			g.InputTokens, g.OutputTokens = g.OutputTokens, g.InputTokens
			return g, fits
		})},
		{"has no column for a kind", withFlaw(func(l *ledger) {
			l.add = func(charged, granted totals) totals {
				granted.ToolCalls = 0
				return charged.Add(granted)
			}
		})},
	},
	"if one kind does not fit, none is charged": {
		{"charges the kinds that fit", withFlaw(func(l *ledger) {
			l.named = func(s slice, name string, fits bool) string {
				if at := (page{s.Scope, name}); !fits && s.Least.Turns > 0 && s.Limit.Turns >= s.Least.Turns {
					l.charged[at] = l.charged[at].Add(totals{Turns: s.Least.Turns})
				}
				return name
			}
		})},
		{"knows no limit of cost", takesFor(func(s *slice) { s.Limit.Cost = max(s.Limit.Cost, s.Least.Cost) })},
	},
	"a slice is what is asked for, or a sixty-fourth of what is left if that is more": {
		{"charges what is needed, and no more", grantsMore(func(s slice, _, _ totals) int64 { return s.Least.Requests })},
		{"charges a share of the limit", grantsMore(func(s slice, _, g totals) int64 {
			return max(g.Requests, s.Limit.Requests/64)
		})},
		{"charges a share beside what is needed", grantsMore(func(s slice, charged, g totals) int64 {
			return min(g.Requests, 1) * (s.Least.Requests + (s.Limit.Requests-charged.Requests)/64)
		})},
	},
	"of what has no limit a slice is what is asked for": {
		{"charges a share of no limit", granting(func(s slice, _, g totals, fits bool) (totals, bool) {
			if fits && s.Limit.Requests == watchdog.NoLimit {
				g.Requests = max(g.Requests, math.MaxInt64/64)
			}
			return g, fits
		})},
	},
	"a sum that is too large for a number stays the largest": {
		{"lets a sum become negative", withFlaw(func(l *ledger) {
			l.add = func(charged, granted totals) totals {
				sum := charged.Add(granted)
				sum.Requests = charged.Requests + granted.Requests
				return sum
			}
		})},
		{"gives back of a sum that was too large", givingBack(func(l *ledger, e *entry, unused totals) error {
			err := l.giveBackOnce(e, unused)
			if l.charged[e.at].Requests == math.MaxInt64 {
				l.charged[e.at] = totals{Requests: math.MaxInt64 - unused.Requests}
			}
			return err
		})},
	},
	"a forced slice is charged with what is asked for, whether it fits or not": {
		{"refuses what is forced", takesFor(func(s *slice) { s.Force = false })},
		{"charges a share of what is forced", granting(func(s slice, charged, g totals, fits bool) (totals, bool) {
			if s.Force {
				g.Requests = max(g.Requests, (s.Limit.Requests-charged.Requests)/64)
			}
			return g, fits
		})},
		{"charges of what is forced what fits", granting(func(s slice, charged, g totals, fits bool) (totals, bool) {
			if s.Force {
				g.Requests = min(g.Requests, s.Limit.Requests-charged.Requests)
			}
			return g, fits
		})},
	},
	"above its limit a kind is granted nothing, and less than nothing never": {
		{"charges a share of a negative rest", granting(func(s slice, charged, g totals, fits bool) (totals, bool) {
			if rest := s.Limit.Requests - charged.Requests; fits && rest < 0 && s.Least.Requests == 0 {
				g.Requests = rest / 64
			}
			return g, fits
		})},
	},
}

// reaches reports whether a kind that has a limit reaches it.
func reaches(least, limit, charged int64) bool {
	return least > 0 && limit < watchdog.NoLimit && charged+least == limit
}

// granting returns a store that changes what is granted.
func granting(change func(s slice, charged, granted totals, fits bool) (totals, bool)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.fit = func(s slice, charged totals) (totals, bool) {
			granted, fits := s.Fit(charged)
			return change(s, charged, granted, fits)
		}
	})
}

// grantsMore returns a store that grants other requests of slices that fit a limit.
func grantsMore(requests func(s slice, charged, granted totals) int64) func() watchdog.SpendStore {
	return granting(func(s slice, charged, g totals, fits bool) (totals, bool) {
		if fits && !s.Force && s.Limit.Requests < watchdog.NoLimit {
			g.Requests = requests(s, charged, g)
		}
		return g, fits
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

var againFaults = faults[watchdog.SpendStore]{
	"a slice that is taken again is charged once, and has what was granted then": {
		{"charges a slice again", again(func(l *ledger, e *entry, s slice) (grant, error) {
			if e.granted.Requests == 25 && !e.back && e.scope == s.Scope {
				l.charged[e.at] = l.charged[e.at].Add(e.granted)
			}
			return l.answerAgain(e, s)
		})},
		{"grants again what is asked for now", answers(func(g *grant, _ *entry, s slice) { g.Granted = s.Least })},
		{"refuses again what does not fit now", answers(func(g *grant, _ *entry, s slice) {
			if s.Least.Requests > s.Limit.Requests {
				g.Fits, g.Granted = false, totals{}
			}
		})},
	},
	"a slice that is taken again after its return is charged no more": {
		{"grants a returned slice anew", again(func(l *ledger, e *entry, s slice) (grant, error) {
			if e.back && e.granted.Requests == 25 {
				l.charged[e.at] = l.charged[e.at].Add(e.returned)
			}
			return l.answerAgain(e, s)
		})},
		{"grants of a returned slice what was kept", answers(func(g *grant, e *entry, _ slice) {
			if e.granted.Requests == 25 {
				g.Granted = e.granted.Sub(e.returned)
			}
		})},
	},
	"a slice that did not fit can be taken when it does": {
		{"remembers what did not fit", withFlaw(func(l *ledger) {
			refused := map[string]bool{}
			l.fit = func(s slice, charged totals) (totals, bool) {
				granted, fits := s.Fit(charged)
				refused[s.ID] = refused[s.ID] || !fits && s.Least.Requests == 50
				return granted, fits && !refused[s.ID]
			}
		})},
	},
	oneIDTogether: {
		{"looks an ID up before it writes it", withFlaw(func(l *ledger) { l.racesForIDs = true })},
	},
}

// again returns a store with another answer to a slice that was taken before.
func again(how func(l *ledger, e *entry, s slice) (grant, error)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.again = func(e *entry, s slice) (grant, error) { return how(l, e, s) }
	})
}

// answers is again with a change of the right answer.
func answers(change func(g *grant, e *entry, s slice)) func() watchdog.SpendStore {
	return again(func(l *ledger, e *entry, s slice) (grant, error) {
		g, err := l.answerAgain(e, s)
		change(&g, e, s)
		return g, err
	})
}

var returnFaults = faults[watchdog.SpendStore]{
	"what is given back fits again, and is given back once": {
		{"gives back each time", givingBack(func(l *ledger, e *entry, unused totals) error {
			if e.granted.Requests == 40 {
				e.back = false
			}
			return l.giveBackOnce(e, unused)
		})},
		{"fails when a slice is returned again", givingBack(func(l *ledger, e *entry, unused totals) error {
			if e.back && e.granted.Requests < 50 {
				return errOwn
			}
			return l.giveBackOnce(e, unused)
		})},
		{"puts a later return in the place of the first", givingBack(func(l *ledger, e *entry, unused totals) error {
			if e.back && unused.Requests < e.returned.Requests {
				l.charged[e.at] = l.charged[e.at].Add(e.returned.Sub(unused))
			}
			return l.giveBackOnce(e, unused)
		})},
	},
	"a return is of its own slice": {
		{"gives nothing back after another slice of the scope", givingBack(func(l *ledger, e *entry, unused totals) error {
			for _, other := range l.slices {
				if other != e && other.at == e.at && other.back && e.granted.Requests == 20 {
					return nil
				}
			}
			return l.giveBackOnce(e, unused)
		})},
	},
	"a return of what no slice has is ErrInvalid": {
		{"says nothing of an unknown slice", unknown(nil)},
		{"has an error of its own for an unknown slice", unknown(errOwn)},
	},
	"no more is given back than was granted, and no less than nothing": {
		{"gives back whatever it is told", givingBack(func(l *ledger, e *entry, unused totals) error {
			unused.Requests = min(unused.Requests, e.granted.Requests)
			return l.giveBackOnce(e, unused)
		})},
		{"looks at requests alone when they are returned", givingBack(func(l *ledger, e *entry, unused totals) error {
			return l.giveBackOnce(e, totals{Requests: unused.Requests})
		})},
		{"takes a refused return for the one", givingBack(func(l *ledger, e *entry, unused totals) error {
			err := l.giveBackOnce(e, unused)
			e.back = true
			return err
		})},
		{"has an error of its own for a negative return", givingBack(func(l *ledger, e *entry, unused totals) error {
			if unused.Requests < 0 {
				return errOwn
			}
			return l.giveBackOnce(e, unused)
		})},
	},
	returnTogether: {
		{"looks up whether a slice was returned before it writes that", withFlaw(func(l *ledger) { l.racesToReturn = true })},
	},
}

// givingBack returns a store that returns slices in another way.
func givingBack(how func(l *ledger, e *entry, unused totals) error) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.giveBack = func(e *entry, unused totals) error { return how(l, e, unused) }
	})
}

func unknown(err error) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.unknown = err })
}
