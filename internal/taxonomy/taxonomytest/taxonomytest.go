// Package taxonomytest gives tests a limit of each count, and a call that counts for it, so that a test that goes over
// the table has what is added to it.
package taxonomytest

import (
	"reflect"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/taxonomy"
)

// Of returns the number that a struct has for the count: a *watchdog.Spend, *watchdog.Totals or *watchdog.Amount. It
// panics if that has none. Money is in euros.
func Of(owner any, c taxonomy.Count) *int64 {
	field := reflect.ValueOf(owner).Elem().FieldByName(c.Field)
	if money, ok := reflect.TypeAssert[*watchdog.Money](field.Addr()); ok {
		money.Currency = "EUR"
		return &money.Micros
	}
	return field.Addr().Interface().(*int64)
}

// Spend is a limit of the count.
func Spend(c taxonomy.Count, most int64) (s watchdog.Spend) {
	*Of(&s, c) = most
	return s
}

// Amount is a call that counts so much, or one call in a row.
func Amount(c taxonomy.Count, n int64) (a watchdog.Amount) {
	switch c.Name {
	case "tokens", "call_input":
		a.InputTokens = n
	case "errors":
		a.Result = watchdog.ResultError
	case "retries":
		a.Result = watchdog.ResultRetry
	default:
		*Of(&a, c) = n
	}
	return a
}
