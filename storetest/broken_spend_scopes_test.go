package storetest_test

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
)

// chargedTo returns a store that charges another scope.
func chargedTo(scope func(scope string) string) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.scopeOf = scope })
}

// currencies returns a store with another currency of a scope. It is a late one if the scope had none at first.
func currencies(how func(s slice, known string, late bool) (string, error)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		late := map[string]bool{}
		l.currency = func(s slice, known string) (string, error) {
			late[s.Scope] = late[s.Scope] || known == "" && s.Currency == "" && s.Least.Cost > 0
			return how(s, known, late[s.Scope])
		}
	})
}

// currencyOf returns a store in which a currency belongs to something else.
func currencyOf(what func(s slice) string) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.currencyOf = what })
}

var scopeFaults = brokenSpends{
	{"does not tell scopes apart by case", "scopes are charged apart", chargedTo(strings.ToLower)},
	{"drops the blanks at the end of a scope", "scopes are charged apart", chargedTo(strings.TrimSpace)},
	{"lets two scopes share a slice", "an ID that was charged to another scope is ErrInvalid, and charges nothing",
		withFlaw(func(l *ledger) {
			l.again = func(e *entry, _ slice) (grant, error) { return l.grant(e), nil }
		})},
	{"knows IDs by their scope", "an ID that was charged to another scope is ErrInvalid, and charges nothing",
		again(func(l *ledger, e *entry, s slice) {
			if at := (page{s.Scope, e.at.window}); e.scope != s.Scope {
				l.charged[at] = l.charged[at].Add(e.granted)
			}
		})},
	{"has an error of its own for an ID of another scope",
		"an ID that was charged to another scope is ErrInvalid, and charges nothing",
		answers(func(_ *grant, err *error, _ *entry, _ slice) { *err = own(*err) })},
	{"adds euros and dollars", "a scope has one currency",
		currencies(func(s slice, known string, late bool) (string, error) {
			if !late {
				return known + s.Currency, nil
			}
			return s.CurrencyOf(known)
		})},
	{"has one currency for all scopes", "a scope has one currency", currencyOf(func(slice) string { return "" })},
	{"has a currency for each window", "a scope has one currency",
		currencyOf(func(s slice) string { return s.Scope + string(s.Period) })},
	{"takes no currency for one", "a scope has one currency",
		currencies(func(s slice, known string, _ bool) (string, error) {
			if known != "" && s.Currency == "" && s.Least.Requests == 0 {
				return "", fmt.Errorf("%w slice: no currency", watchdog.ErrInvalid)
			}
			return s.CurrencyOf(known)
		})},
	{"has an error of its own for another currency", "a scope has one currency",
		currencies(func(s slice, known string, late bool) (string, error) {
			got, err := s.CurrencyOf(known)
			setIf(!late, &err, own(err))
			return got, err
		})},
	{"never learns the currency of a scope",
		"a scope that had no currency has that of the first slice with one",
		currencies(func(s slice, known string, late bool) (string, error) {
			if late {
				return "", nil
			}
			return s.CurrencyOf(known)
		})},
	{"cuts a scope to fit", "IDs and scopes are kept as they are",
		chargedTo(func(scope string) string { return string([]rune(scope)[:min(254, len([]rune(scope)))]) })},
	{"normalizes a scope", "IDs and scopes are kept as they are",
		chargedTo(func(scope string) string { return strings.ReplaceAll(scope, "e\u0301", "é") })},
	{"cannot write a quote", "IDs and scopes are kept as they are",
		validating(func(s *slice) { setIf(strings.Contains(s.Scope, "'"), &s.Scope, "") })},
	{"does not tell IDs apart by case", "IDs that differ in case are different slices",
		withFlaw(func(l *ledger) {
			l.idOf = func(s slice) string {
				setIf(len(s.ID) == 2, &s.ID, strings.ToLower(s.ID))
				return s.ID
			}
		})},
}

// windowing returns a store with other windows.
func windowing(change func(s slice, name *string, ends *time.Time)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.windows = change })
}

func naming(how func(s slice, name string, fits bool) string) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.named = how })
}

var windowFaults = brokenSpends{
	{"has a window for each slice",
		"slices of one period are charged in one window, which ends within the period",
		windowing(func(s slice, name *string, _ *time.Time) { setIf(s.Period != watchdog.PeriodNone, name, s.ID) })},
	{"has windows without an end",
		"slices of one period are charged in one window, which ends within the period",
		windowing(func(_ slice, _ *string, ends *time.Time) { *ends = time.Time{} })},
	{"has windows that have ended",
		"slices of one period are charged in one window, which ends within the period",
		windowing(func(s slice, _ *string, ends *time.Time) {
			setIf(s.Period != watchdog.PeriodNone, ends, ends.AddDate(-1, 0, 0))
		})},
	{"has hours of a day",
		"slices of one period are charged in one window, which ends within the period",
		windowing(func(s slice, _ *string, ends *time.Time) {
			setIf(s.Period == watchdog.PeriodHour, ends, ends.AddDate(0, 0, 1))
		})},
	{"ends what has no period", "a slice without a period is charged for ever",
		windowing(func(s slice, _ *string, ends *time.Time) {
			setIf(s.Period == watchdog.PeriodNone, ends, time.Now().Add(time.Hour))
		})},
	{"ends it when it is asked again", "a slice without a period is charged for ever",
		answers(func(g *grant, _ *error, _ *entry, _ slice) { g.Ends = 0 })},
	{"has one window for all periods", "the periods of a scope are charged apart",
		windowing(func(s slice, name *string, _ *time.Time) { setIf(strings.HasPrefix(s.ID, "slice-"), name, "") })},
	{"gives back in the window without an end", "what is given back is given back in its own window",
		beforeReturn(func(_ *ledger, e *entry, _ *totals) { e.at.window = "" })},
	{"names no window", "a grant names the window that it is of",
		naming(func(slice, string, bool) string { return "" })},
	{"names a window by its period", "a grant names the window that it is of",
		naming(func(s slice, _ string, _ bool) string { return string(s.Period) })},
	{"names a window by the slice", "a grant names the window that it is of",
		naming(func(s slice, _ string, _ bool) string { return s.ID })},
	{"names what counts for ever", "a grant names the window that it is of",
		naming(func(_ slice, name string, _ bool) string { return cmp.Or(name, "ever") })},
	{"names no window of what does not fit", "a grant names the window that it is of",
		naming(func(_ slice, name string, fits bool) string {
			setIf(!fits, &name, "")
			return name
		})},
	{"names no window when it is asked again", "a grant names the window that it is of",
		answers(func(g *grant, _ *error, _ *entry, _ slice) { g.Window = "" })},
}

// validating returns a store that looks at a slice in which something was changed.
func validating(change func(s *slice)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.validates = change })
}

// altering returns a store whose calls are altered.
func altering(f fault) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.alter = f() })
}

// hidesContext is a fault in which a method has an error of its own for a context that is done.
func hidesContext(method string) fault {
	return fails(method, errOwn, func(c *call) bool { return c.ctx.Err() != nil })
}

var spendCallFaults = brokenSpends{
	{"does not look at a slice's ID", "an invalid slice is refused with ErrInvalid",
		validating(func(s *slice) { s.ID = "a" })},
	{"does not look at a slice's scope", "an invalid slice is refused with ErrInvalid",
		validating(func(s *slice) { s.Scope = "a" })},
	{"does not look at a slice's zone", "an invalid slice is refused with ErrInvalid",
		validating(func(s *slice) { s.Zone = "" })},
	{"has an error of its own for an invalid slice", "an invalid slice is refused with ErrInvalid",
		altering(after("Take", func(c *call) { setIf(c.slice.Validate() != nil, &c.err, own(c.err)) }))},
	{"ignores the context of a take", "a take with a done context charges nothing and returns the context's error",
		altering(ignoresContext("Take"))},
	{"charges and then returns the context's error",
		"a take with a done context charges nothing and returns the context's error",
		altering(looksAtContextLate("Take"))},
	{"has an error of its own for a take with a done context",
		"a take with a done context charges nothing and returns the context's error", altering(hidesContext("Take"))},
	{"ignores the context of a return", "a return with a done context gives nothing back and returns the context's error",
		altering(ignoresContext("Return"))},
	{"gives back and then returns the context's error",
		"a return with a done context gives nothing back and returns the context's error",
		altering(looksAtContextLate("Return"))},
	{"has an error of its own for a return with a done context",
		"a return with a done context gives nothing back and returns the context's error",
		altering(hidesContext("Return"))},
	{"reads what is charged before it writes it", crowdFits, withFlaw(func(l *ledger) { l.racesForTotals = true })},
}
