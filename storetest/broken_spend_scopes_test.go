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

var brokenScopes = []brokenSpend{
	{"does not tell scopes apart by case", scopesApart, withFlaw(func(l *ledger) { l.scopeOf = strings.ToLower })},
	{"drops the blanks at the end of a scope", scopesApart, withFlaw(func(l *ledger) { l.scopeOf = strings.TrimSpace })},
	{"lets two scopes share a slice", idOfOther, answering(func(l *ledger, e *entry, _ watchdog.Slice) (watchdog.Grant, error) {
		return l.grant(e, e.granted), nil
	})},
	{"knows IDs by their scope", idOfOther, answering(func(l *ledger, e *entry, s watchdog.Slice) (watchdog.Grant, error) {
		if e.scope != s.Scope {
			at := page{s.Scope, e.at.window}
			l.charged[at] = l.charged[at].Add(e.granted)
		}
		return l.answerAgain(e, s)
	})},
	{"has an error of its own for an ID of another scope", idOfOther, answering(
		func(l *ledger, e *entry, s watchdog.Slice) (watchdog.Grant, error) {
			if e.scope != s.Scope {
				return watchdog.Grant{}, errOwn
			}
			return l.answerAgain(e, s)
		})},
	{"adds euros and dollars", oneCurrency, withFlaw(func(l *ledger) {
		none := map[string]bool{}
		l.currency = func(s watchdog.Slice, known string) (string, error) {
			none[s.Scope] = none[s.Scope] || known == "" && s.Currency == "" && s.Least.Cost > 0
			if !none[s.Scope] {
				return known + s.Currency, nil
			}
			return s.CurrencyOf(known)
		}
	})},
	{"has one currency for all scopes", oneCurrency, withFlaw(func(l *ledger) {
		l.currencyOf = func(watchdog.Slice) string { return "" }
	})},
	{"has a currency for each window", oneCurrency, withFlaw(func(l *ledger) {
		l.currencyOf = func(s watchdog.Slice) string { return s.Scope + string(s.Period) }
	})},
	{"takes no currency for one", oneCurrency, withFlaw(func(l *ledger) {
		l.currency = func(s watchdog.Slice, known string) (string, error) {
			if known != "" && s.Currency == "" && s.Least.Requests == 0 {
				return "", fmt.Errorf("%w slice: no currency", watchdog.ErrInvalid)
			}
			return s.CurrencyOf(known)
		}
	})},
	{"has an error of its own for another currency", oneCurrency, withFlaw(func(l *ledger) {
		none := map[string]bool{}
		l.currency = func(s watchdog.Slice, known string) (string, error) {
			none[s.Scope] = none[s.Scope] || known == "" && s.Currency == "" && s.Least.Cost > 0
			got, err := s.CurrencyOf(known)
			if err != nil && !none[s.Scope] {
				err = errOwn
			}
			return got, err
		}
	})},
	{"never learns the currency of a scope", laterCurrency, withFlaw(func(l *ledger) {
		none := map[string]bool{}
		l.currency = func(s watchdog.Slice, known string) (string, error) {
			if none[s.Scope] = none[s.Scope] || known == "" && s.Currency == "" && s.Least.Cost > 0; none[s.Scope] {
				return "", nil
			}
			return s.CurrencyOf(known)
		}
	})},
	{"cuts a scope to fit", namesKept, withFlaw(func(l *ledger) {
		l.scopeOf = func(scope string) string { return string([]rune(scope)[:min(254, len([]rune(scope)))]) }
	})},
	{"normalizes a scope", namesKept, withFlaw(func(l *ledger) {
		l.scopeOf = func(scope string) string { return strings.ReplaceAll(scope, "e\u0301", "é") }
	})},
	{"cannot write a quote", namesKept, withFlaw(func(l *ledger) {
		l.validate = func(s watchdog.Slice) error {
			if strings.Contains(s.Scope, "'") {
				return errOwn
			}
			return s.Validate()
		}
	})},
	{"does not tell IDs apart by case", caseOfIDs, withFlaw(func(l *ledger) {
		l.idOf = func(s watchdog.Slice) string {
			if len(s.ID) == 2 {
				return strings.ToLower(s.ID)
			}
			return s.ID
		}
	})},
}

var brokenWindows = []brokenSpend{
	{"has a window for each slice", oneWindow, windowing(func(s watchdog.Slice, name string, ends time.Time) (string, time.Time) {
		if s.Period != watchdog.PeriodNone {
			name = s.ID
		}
		return name, ends
	})},
	{"has windows without an end", oneWindow, windowing(
		func(_ watchdog.Slice, name string, _ time.Time) (string, time.Time) { return name, time.Time{} })},
	{"has windows that have ended", oneWindow, windowing(
		func(_ watchdog.Slice, name string, ends time.Time) (string, time.Time) {
			if !ends.IsZero() {
				ends = ends.AddDate(-1, 0, 0)
			}
			return name, ends
		})},
	{"has hours of a day", oneWindow, windowing(func(s watchdog.Slice, name string, ends time.Time) (string, time.Time) {
		if s.Period == watchdog.PeriodHour {
			ends = ends.AddDate(0, 0, 1)
		}
		return name, ends
	})},
	{"ends what has no period", neverEnds, windowing(
		func(s watchdog.Slice, name string, ends time.Time) (string, time.Time) {
			if s.Period == watchdog.PeriodNone {
				ends = time.Now().Add(time.Hour)
			}
			return name, ends
		})},
	{"ends it when it is asked again", neverEnds, answering(
		func(l *ledger, e *entry, s watchdog.Slice) (watchdog.Grant, error) {
			g, err := l.answerAgain(e, s)
			g.Ends = 0
			return g, err
		})},
	{"has one window for all periods", periodsApart, windowing(
		func(s watchdog.Slice, _ string, ends time.Time) (string, time.Time) {
			if strings.HasPrefix(s.ID, "slice-") {
				return "", ends
			}
			return string(s.Period), ends
		})},
	{"gives back in the window without an end", ownWindow, givingBack(
		func(l *ledger, e *entry, unused watchdog.Totals) error {
			e.at.window = ""
			return l.giveBackOnce(e, unused)
		})},
	{"names no window", windowNamed, naming(func(watchdog.Slice, string, bool) string { return "" })},
	{"names a window by its period", windowNamed, naming(
		func(s watchdog.Slice, _ string, _ bool) string { return string(s.Period) })},
	{"names a window by the slice", windowNamed, naming(
		func(s watchdog.Slice, _ string, _ bool) string { return s.ID })},
	{"names what counts for ever", windowNamed, naming(func(_ watchdog.Slice, name string, _ bool) string {
		return cmp.Or(name, "ever")
	})},
	{"names no window of what does not fit", windowNamed, naming(
		func(_ watchdog.Slice, name string, fits bool) string {
			if !fits {
				return ""
			}
			return name
		})},
	{"names no window when it is asked again", windowNamed, answering(
		func(l *ledger, e *entry, s watchdog.Slice) (watchdog.Grant, error) {
			g, err := l.answerAgain(e, s)
			g.Window = ""
			return g, err
		})},
}

func naming(named func(s watchdog.Slice, name string, fits bool) string) func() watchdog.SpendStore {
	return withFlaw(func(l *ledger) { l.named = named })
}

var brokenSpendCalls = []brokenSpend{
	{"does not look at a slice's ID", invalidSlice, validating(func(s *watchdog.Slice) { s.ID = "a" })},
	{"does not look at a slice's scope", invalidSlice, validating(func(s *watchdog.Slice) { s.Scope = "a" })},
	{"does not look at a slice's zone", invalidSlice, validating(func(s *watchdog.Slice) { s.Zone = "" })},
	{"has an error of its own for an invalid slice", invalidSlice, withFlaw(func(l *ledger) {
		l.validate = func(s watchdog.Slice) error {
			if s.Validate() != nil {
				return errOwn
			}
			return nil
		}
	})},
	{"ignores the context of a take", doneTake, withFlaw(func(l *ledger) {
		l.doneTake = func(_ context.Context, call func() error) error { return call() }
	})},
	{"charges and then returns the context's error", doneTake, withFlaw(func(l *ledger) {
		l.doneTake = func(ctx context.Context, call func() error) error { return errors.Join(call(), ctx.Err()) }
	})},
	{"has an error of its own for a take with a done context", doneTake, withFlaw(func(l *ledger) {
		l.doneTake = func(context.Context, func() error) error { return errOwn }
	})},
	{"ignores the context of a return", doneReturn, withFlaw(func(l *ledger) {
		l.doneReturn = func(_ context.Context, call func() error) error { return call() }
	})},
	{"gives back and then returns the context's error", doneReturn, withFlaw(func(l *ledger) {
		l.doneReturn = func(ctx context.Context, call func() error) error { return errors.Join(call(), ctx.Err()) }
	})},
	{"has an error of its own for a return with a done context", doneReturn, withFlaw(func(l *ledger) {
		l.doneReturn = func(context.Context, func() error) error { return errOwn }
	})},
	{"reads what is charged before it writes it", crowdFits, withFlaw(func(l *ledger) { l.racesForTotals = true })},
}
