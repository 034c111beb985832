package storetest_test

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
)

const (
	fitsUpToLimit  = "what is asked for fits up to the limit, and not with one more"
	kindsApart     = "every kind is charged by itself"
	allKindsOrNone = "if one kind does not fit, none is charged"
	shareOfRest    = "a slice is what is asked for, or a sixty-fourth of what is left if that is more"
	noLimitNoShare = "of what has no limit a slice is what is asked for"
	sumTooLarge    = "a sum that is too large for a number stays the largest"
	forcedFits     = "a forced slice is charged with what is asked for, whether it fits or not"
	aboveLimit     = "above its limit a kind is granted nothing, and less than nothing never"

	takenAgain    = "a slice that is taken again is charged once, and has what was granted then"
	afterReturn   = "a slice that is taken again after its return is charged no more"
	unfitIsFree   = "a slice that did not fit can be taken when it does"
	oneIDTogether = "a slice that many take at once under one ID is charged once"

	givenBackOnce  = "what is given back fits again, and is given back once"
	ownSlice       = "a return is of its own slice"
	unknownSlice   = "a return of what no slice has is ErrInvalid"
	notMoreBack    = "no more is given back than was granted, and no less than nothing"
	returnTogether = "what many give back at once of one slice is given back once"

	scopesApart   = "scopes are charged apart"
	idOfOther     = "an ID that was charged to another scope is ErrInvalid, and charges nothing"
	oneCurrency   = "a scope has one currency"
	laterCurrency = "a scope that had no currency has that of the first slice with one"
	namesKept     = "IDs and scopes are kept as they are"
	caseOfIDs     = "IDs that differ in case are different slices"

	oneWindow    = "slices of one period are charged in one window, which ends within the period"
	neverEnds    = "a slice without a period is charged for ever"
	periodsApart = "the periods of a scope are charged apart"
	ownWindow    = "what is given back is given back in its own window"
	windowNamed  = "a grant names the window that it is of"

	invalidSlice = "an invalid slice is refused with ErrInvalid"
	doneTake     = "a take with a done context charges nothing and returns the context's error"
	doneReturn   = "a return with a done context gives nothing back and returns the context's error"
	crowdFits    = "many callers at once never exceed the limit, and nothing is lost"
)

// A brokenSpend is a store with one flaw, and the rule that must find it.
type brokenSpend struct {
	flaw   string // completes "a store that …"
	breaks string
	open   func() watchdog.SpendStore
}

func brokenSpends() []brokenSpend {
	return slices.Concat(brokenFits, brokenAgain, brokenReturns, brokenScopes, brokenWindows, brokenSpendCalls)
}

var errOwn = errors.New("constraint failed")

var brokenFits = []brokenSpend{
	{"refuses what reaches the limit", fitsUpToLimit, fitting(func(s watchdog.Slice, charged watchdog.Totals) bool {
		return !slices.ContainsFunc(eachKind(s, charged), func(k kind) bool {
			return k.least > 0 && k.limit < watchdog.NoLimit && k.used+k.least == k.limit
		})
	})},
	{"allows one more", fitsUpToLimit, granting(
		func(s watchdog.Slice, charged, granted watchdog.Totals, fits bool) (watchdog.Totals, bool) {
			if s.Limit.Requests > 0 && charged.Requests+s.Least.Requests == s.Limit.Requests+1 {
				return s.Least, true
			}
			return granted, fits
		})},
	{"mixes up two kinds", kindsApart, granting(
		func(_ watchdog.Slice, _, g watchdog.Totals, fits bool) (watchdog.Totals, bool) {
			g.InputTokens, g.OutputTokens = g.OutputTokens, g.InputTokens
			return g, fits
		})},
	{"has no column for a kind", kindsApart, withFlaw(func(l *ledger) {
		l.add = func(charged, granted watchdog.Totals) watchdog.Totals {
			granted.ToolCalls = 0
			return charged.Add(granted)
		}
	})},
	{"charges the kinds that fit", allKindsOrNone, withFlaw(func(l *ledger) {
		l.unfit = func(l *ledger, s watchdog.Slice, at page, _ watchdog.Totals) {
			if s.Least.Turns > 0 && s.Limit.Turns >= s.Least.Turns {
				l.charged[at] = l.charged[at].Add(watchdog.Totals{Turns: s.Least.Turns})
			}
		}
	})},
	{"knows no limit of cost", allKindsOrNone, withFlaw(func(l *ledger) {
		l.fit = func(s watchdog.Slice, charged watchdog.Totals) (watchdog.Totals, bool) {
			if s.Least.Cost > s.Limit.Cost {
				s.Limit.Cost = s.Least.Cost
			}
			return s.Fit(charged)
		}
	})},
	{"charges what is needed, and no more", shareOfRest, granting(
		func(s watchdog.Slice, _, g watchdog.Totals, fits bool) (watchdog.Totals, bool) {
			if fits {
				g = s.Least
			}
			return g, fits
		})},
	{"charges a share of the limit", shareOfRest, granting(
		func(s watchdog.Slice, _, g watchdog.Totals, fits bool) (watchdog.Totals, bool) {
			if fits && !s.Force && s.Limit.Requests < watchdog.NoLimit {
				g.Requests = max(g.Requests, s.Limit.Requests/64)
			}
			return g, fits
		})},
	{"charges a share beside what is needed", shareOfRest, granting(
		func(s watchdog.Slice, charged, g watchdog.Totals, fits bool) (watchdog.Totals, bool) {
			if fits && !s.Force && s.Limit.Requests < watchdog.NoLimit && g.Requests > 0 {
				g.Requests = s.Least.Requests + (s.Limit.Requests-charged.Requests)/64
			}
			return g, fits
		})},
	{"charges a share of no limit", noLimitNoShare, granting(
		func(s watchdog.Slice, _, g watchdog.Totals, fits bool) (watchdog.Totals, bool) {
			if fits && s.Limit.Requests == watchdog.NoLimit {
				g.Requests = max(g.Requests, math.MaxInt64/64)
			}
			return g, fits
		})},
	{"lets a sum become negative", sumTooLarge, withFlaw(func(l *ledger) {
		l.add = func(charged, granted watchdog.Totals) watchdog.Totals {
			sum := charged.Add(granted)
			sum.Requests = charged.Requests + granted.Requests
			return sum
		}
	})},
	{"gives back of a sum that was too large", sumTooLarge, givingBack(
		func(l *ledger, e *entry, unused watchdog.Totals) error {
			err := l.giveBackOnce(e, unused)
			if charged := l.charged[e.at]; charged.Requests == math.MaxInt64 {
				charged.Requests -= unused.Requests
				l.charged[e.at] = charged
			}
			return err
		})},
	{"refuses what is forced", forcedFits, withFlaw(func(l *ledger) {
		l.fit = func(s watchdog.Slice, charged watchdog.Totals) (watchdog.Totals, bool) {
			s.Force = false
			return s.Fit(charged)
		}
	})},
	{"charges a share of what is forced", forcedFits, granting(
		func(s watchdog.Slice, charged, g watchdog.Totals, fits bool) (watchdog.Totals, bool) {
			if s.Force {
				g.Requests = max(g.Requests, (s.Limit.Requests-charged.Requests)/64)
			}
			return g, fits
		})},
	{"charges of what is forced what fits", forcedFits, granting(
		func(s watchdog.Slice, charged, g watchdog.Totals, fits bool) (watchdog.Totals, bool) {
			if s.Force {
				g.Requests = min(g.Requests, s.Limit.Requests-charged.Requests)
			}
			return g, fits
		})},
	{"charges a share of a negative rest", aboveLimit, granting(
		func(s watchdog.Slice, charged, g watchdog.Totals, fits bool) (watchdog.Totals, bool) {
			if rest := s.Limit.Requests - charged.Requests; fits && rest < 0 && s.Least.Requests == 0 {
				g.Requests = rest / 64
			}
			return g, fits
		})},
}

var brokenAgain = []brokenSpend{
	{"charges a slice again", takenAgain, answering(func(l *ledger, e *entry, s watchdog.Slice) (watchdog.Grant, error) {
		if e.granted.Requests == 25 && !e.back && e.scope == s.Scope {
			l.charged[e.at] = l.charged[e.at].Add(e.granted)
		}
		return l.answerAgain(e, s)
	})},
	{"grants again what is asked for now", takenAgain, answering(
		func(l *ledger, e *entry, s watchdog.Slice) (watchdog.Grant, error) {
			g, err := l.answerAgain(e, s)
			g.Granted = s.Least
			return g, err
		})},
	{"refuses again what does not fit now", takenAgain, answering(
		func(l *ledger, e *entry, s watchdog.Slice) (watchdog.Grant, error) {
			g, err := l.answerAgain(e, s)
			if s.Least.Requests > s.Limit.Requests {
				g = watchdog.Grant{Charged: g.Charged, Window: g.Window, Ends: g.Ends}
			}
			return g, err
		})},
	{"grants a returned slice anew", afterReturn, answering(
		func(l *ledger, e *entry, s watchdog.Slice) (watchdog.Grant, error) {
			if e.back && e.granted.Requests == 25 {
				l.charged[e.at] = l.charged[e.at].Add(e.returned)
			}
			return l.answerAgain(e, s)
		})},
	{"grants of a returned slice what was kept", afterReturn, answering(
		func(l *ledger, e *entry, s watchdog.Slice) (watchdog.Grant, error) {
			g, err := l.answerAgain(e, s)
			if e.granted.Requests == 25 {
				g.Granted = e.granted.Sub(e.returned)
			}
			return g, err
		})},
	{"remembers what did not fit", unfitIsFree, withFlaw(func(l *ledger) {
		refused := map[string]bool{}
		l.fit = func(s watchdog.Slice, charged watchdog.Totals) (watchdog.Totals, bool) {
			granted, fits := s.Fit(charged)
			if !fits && s.Least.Requests == 50 {
				refused[s.ID] = true
			}
			return granted, fits && !refused[s.ID]
		}
	})},
	{"looks an ID up before it writes it", oneIDTogether, withFlaw(func(l *ledger) { l.racesForIDs = true })},
}

var brokenReturns = []brokenSpend{
	{"gives back each time", givenBackOnce, givingBack(func(l *ledger, e *entry, unused watchdog.Totals) error {
		if e.granted.Requests == 40 {
			e.back = false
		}
		return l.giveBackOnce(e, unused)
	})},
	{"fails when a slice is returned again", givenBackOnce, givingBack(
		func(l *ledger, e *entry, unused watchdog.Totals) error {
			if e.back && e.granted.Requests < 50 {
				return errOwn
			}
			return l.giveBackOnce(e, unused)
		})},
	{"puts a later return in the place of the first", givenBackOnce, givingBack(
		func(l *ledger, e *entry, unused watchdog.Totals) error {
			if e.back && unused.Requests < e.returned.Requests {
				l.charged[e.at] = l.charged[e.at].Add(e.returned.Sub(unused))
			}
			return l.giveBackOnce(e, unused)
		})},
	{"gives nothing back after another slice of the scope", ownSlice, givingBack(
		func(l *ledger, e *entry, unused watchdog.Totals) error {
			for _, other := range l.slices {
				if other != e && other.at == e.at && other.back && e.granted.Requests == 20 {
					return nil
				}
			}
			return l.giveBackOnce(e, unused)
		})},
	{"says nothing of an unknown slice", unknownSlice, withFlaw(func(l *ledger) { l.unknown = nil })},
	{"has an error of its own for an unknown slice", unknownSlice, withFlaw(func(l *ledger) { l.unknown = errOwn })},
	{"gives back whatever it is told", notMoreBack, givingBack(func(l *ledger, e *entry, unused watchdog.Totals) error {
		if most := e.granted.Sub(unused); most.Requests < 0 {
			unused.Requests = e.granted.Requests
		}
		return l.giveBackOnce(e, unused)
	})},
	{"looks at requests alone when they are returned", notMoreBack, givingBack(
		func(l *ledger, e *entry, unused watchdog.Totals) error {
			return l.giveBackOnce(e, watchdog.Totals{Requests: unused.Requests})
		})},
	{"takes a refused return for the one", notMoreBack, givingBack(
		func(l *ledger, e *entry, unused watchdog.Totals) error {
			err := l.giveBackOnce(e, unused)
			e.back = true
			return err
		})},
	{"has an error of its own for a negative return", notMoreBack, givingBack(
		func(l *ledger, e *entry, unused watchdog.Totals) error {
			if unused.Requests < 0 {
				return errOwn
			}
			return l.giveBackOnce(e, unused)
		})},
	{"looks up whether a slice was returned before it writes that", returnTogether,
		withFlaw(func(l *ledger) { l.racesToReturn = true })},
}

// A kind is one kind of a slice.
type kind struct{ least, limit, used int64 }

func eachKind(s watchdog.Slice, charged watchdog.Totals) []kind {
	return []kind{
		{s.Least.InputTokens, s.Limit.InputTokens, charged.InputTokens},
		{s.Least.Requests, s.Limit.Requests, charged.Requests},
	}
}

// fitting returns a store in which less fits.
func fitting(fits func(s watchdog.Slice, charged watchdog.Totals) bool) func() watchdog.SpendStore {
	return granting(func(s watchdog.Slice, charged, g watchdog.Totals, fit bool) (watchdog.Totals, bool) {
		if !fits(s, charged) {
			return watchdog.Totals{}, false
		}
		return g, fit
	})
}

// granting returns a store that changes what is granted.
func granting(
	change func(s watchdog.Slice, charged, granted watchdog.Totals, fits bool) (watchdog.Totals, bool),
) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.fit = func(s watchdog.Slice, charged watchdog.Totals) (watchdog.Totals, bool) {
			granted, fits := s.Fit(charged)
			return change(s, charged, granted, fits)
		}
	})
}

func answering(
	again func(l *ledger, e *entry, s watchdog.Slice) (watchdog.Grant, error),
) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.again = again })
}

func givingBack(giveBack func(l *ledger, e *entry, unused watchdog.Totals) error) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.giveBack = giveBack })
}

func windowing(
	change func(s watchdog.Slice, name string, ends time.Time) (string, time.Time),
) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.windowAt = func(s watchdog.Slice, now time.Time) (string, time.Time) {
			name, ends := s.WindowAt(now)
			return change(s, name, ends)
		}
	})
}

// validating returns a store that looks at a slice in which something was made right.
func validating(mend func(s *watchdog.Slice)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.validate = func(s watchdog.Slice) error {
			mend(&s)
			return s.Validate()
		}
	})
}
