package storetest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
)

var scopeFaults = brokenSpends{
	{"does not tell scopes apart by case", "scopes are charged apart",
		withFlaw(func(l *ledger) { l.scopeOf = strings.ToLower })},
	{"drops the blanks at the end of a scope", "scopes are charged apart",
		withFlaw(func(l *ledger) { l.scopeOf = strings.TrimSpace })},
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
		withFlaw(func(l *ledger) {
			l.again = func(e *entry, s slice) (grant, error) {
				g, err := l.answerAgain(e, s)
				return g, own(err)
			}
		})},
	{"adds euros and dollars", "a scope has one currency",
		currencies(func(s slice, known string, late bool) (string, error) {
			if !late {
				return known + s.Currency, nil
			}
			return s.CurrencyOf(known)
		})},
	{"has one currency for all scopes", "a scope has one currency",
		withFlaw(func(l *ledger) {
			l.currencyOf = func(slice) string { return "" }
		})},
	{"has a currency for each window", "a scope has one currency",
		withFlaw(func(l *ledger) {
			l.currencyOf = func(s slice) string { return s.Scope + string(s.Period) }
		})},
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
			if !late {
				err = own(err)
			}
			return got, err
		})},
	{"never learns the currency of a scope", "a scope that had no currency has that of the first slice with one",
		currencies(func(s slice, known string, late bool) (string, error) {
			if late {
				return "", nil
			}
			return s.CurrencyOf(known)
		})},
	{"cuts a scope to fit", "IDs and scopes are kept as they are",
		withFlaw(func(l *ledger) {
			l.scopeOf = func(scope string) string { return string([]rune(scope)[:min(254, len([]rune(scope)))]) }
		})},
	{"normalizes a scope", "IDs and scopes are kept as they are",
		withFlaw(func(l *ledger) {
			l.scopeOf = func(scope string) string { return strings.ReplaceAll(scope, "e\u0301", "é") }
		})},
	{"cannot write a quote", "IDs and scopes are kept as they are",
		withFlaw(func(l *ledger) {
			l.validate = func(s slice) error {
				if strings.Contains(s.Scope, "'") {
					return errOwn
				}
				return s.Validate()
			}
		})},
	{"does not tell IDs apart by case", "IDs that differ in case are different slices",
		withFlaw(func(l *ledger) {
			l.idOf = func(s slice) string {
				if len(s.ID) == 2 {
					return strings.ToLower(s.ID)
				}
				return s.ID
			}
		})},
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

var windowFaults = brokenSpends{
	{"has a window for each slice", "slices of one period are charged in one window, which ends within the period",
		windowing(func(s slice, name *string, _ *time.Time) {
			if s.Period != watchdog.PeriodNone {
				*name = s.ID
			}
		})},
	{"has windows without an end", "slices of one period are charged in one window, which ends within the period",
		windowing(func(_ slice, _ *string, ends *time.Time) { *ends = time.Time{} })},
	{"has windows that have ended", "slices of one period are charged in one window, which ends within the period",
		windowing(func(s slice, _ *string, ends *time.Time) {
			if s.Period != watchdog.PeriodNone {
				*ends = ends.AddDate(-1, 0, 0)
			}
		})},
	{"has hours of a day", "slices of one period are charged in one window, which ends within the period",
		windowing(func(s slice, _ *string, ends *time.Time) {
			if s.Period == watchdog.PeriodHour {
				*ends = ends.AddDate(0, 0, 1)
			}
		})},
	{"ends what has no period", "a slice without a period is charged for ever",
		windowing(func(s slice, _ *string, ends *time.Time) {
			if s.Period == watchdog.PeriodNone {
				*ends = time.Now().Add(time.Hour)
			}
		})},
	{"ends it when it is asked again", "a slice without a period is charged for ever",
		answers(func(g *grant, _ *entry, _ slice) { g.Ends = 0 })},
	{"has one window for all periods", "the periods of a scope are charged apart",
		windowing(func(s slice, name *string, _ *time.Time) {
			if strings.HasPrefix(s.ID, "slice-") {
				*name = ""
			}
		})},
	{"gives back in the window without an end", "what is given back is given back in its own window",
		beforeReturn(func(_ *ledger, e *entry, _ *totals) {
			e.at.window = ""
		})},
	{"names no window", "a grant names the window that it is of", naming(func(slice, string, bool) string { return "" })},
	{"names a window by its period", "a grant names the window that it is of",
		naming(func(s slice, _ string, _ bool) string { return string(s.Period) })},
	{"names a window by the slice", "a grant names the window that it is of",
		naming(func(s slice, _ string, _ bool) string { return s.ID })},
	{"names what counts for ever", "a grant names the window that it is of",
		naming(func(_ slice, name string, _ bool) string { return cmp.Or(name, "ever") })},
	{"names no window of what does not fit", "a grant names the window that it is of",
		naming(func(_ slice, name string, fits bool) string {
			if !fits {
				return ""
			}
			return name
		})},
	{"names no window when it is asked again", "a grant names the window that it is of",
		answers(func(g *grant, _ *entry, _ slice) { g.Window = "" })},
}

// windowing returns a store with other windows.
func windowing(change func(s slice, name *string, ends *time.Time)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.windowAt = func(s slice, now time.Time) (string, time.Time) {
			name, ends := s.WindowAt(now)
			change(s, &name, &ends)
			return name, ends
		}
	})
}

func naming(how func(s slice, name string, fits bool) string) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.named = how })
}

var spendCallFaults = brokenSpends{
	{"does not look at a slice's ID", "an invalid slice is refused with ErrInvalid",
		validating(func(s *slice) { s.ID = "a" })},
	{"does not look at a slice's scope", "an invalid slice is refused with ErrInvalid",
		validating(func(s *slice) { s.Scope = "a" })},
	{"does not look at a slice's zone", "an invalid slice is refused with ErrInvalid",
		validating(func(s *slice) { s.Zone = "" })},
	{"has an error of its own for an invalid slice", "an invalid slice is refused with ErrInvalid",
		withFlaw(func(l *ledger) {
			l.validate = func(s slice) error { return own(s.Validate()) }
		})},
	{"ignores the context of a take", "a take with a done context charges nothing and returns the context's error",
		calls("Take", ignoresContext)},
	{"charges and then returns the context's error",
		"a take with a done context charges nothing and returns the context's error",
		calls("Take", looksAtContextLate)},
	{"has an error of its own for a take with a done context",
		"a take with a done context charges nothing and returns the context's error",
		calls("Take", hidesContext)},
	{"ignores the context of a return", "a return with a done context gives nothing back and returns the context's error",
		calls("Return", ignoresContext)},
	{"gives back and then returns the context's error",
		"a return with a done context gives nothing back and returns the context's error",
		calls("Return", looksAtContextLate)},
	{"has an error of its own for a return with a done context",
		"a return with a done context gives nothing back and returns the context's error",
		calls("Return", hidesContext)},
	{"reads what is charged before it writes it", crowdFits, withFlaw(func(l *ledger) { l.racesForTotals = true })},
}

// validating returns a store that looks at a slice in which something was made right.
func validating(mend func(s *slice)) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.validate = func(s slice) error {
			mend(&s)
			return s.Validate()
		}
	})
}

// A way to make a call.
type way = func(ctx context.Context, do func(ctx context.Context) error) error

// calls returns a store that makes the calls of a method in another way.
func calls(method string, how way) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) {
		l.call = func(ctx context.Context, called string, do func(context.Context) error) error {
			if called == method {
				return how(ctx, do)
			}
			return do(ctx)
		}
	})
}

func ignoresContext(ctx context.Context, do func(ctx context.Context) error) error {
	return do(context.WithoutCancel(ctx))
}

func looksAtContextLate(ctx context.Context, do func(ctx context.Context) error) error {
	return errors.Join(do(context.WithoutCancel(ctx)), ctx.Err())
}

func hidesContext(ctx context.Context, do func(ctx context.Context) error) error {
	if ctx.Err() != nil {
		return errOwn
	}
	return do(ctx)
}
