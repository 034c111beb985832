package watchdog_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// TestLastLimits checks that a run has the limits of its own budget, whatever budget the run before it had. It walks
// all fields, so that one which is added is checked, too.
func TestLastLimits(t *testing.T) {
	var full watchdog.Budget
	for _, path := range fieldsOf(reflect.TypeFor[watchdog.Budget](), nil) {
		setField(t, &full, path, 2)
	}
	for of, base := range map[string]watchdog.Budget{"a budget without limits": {}, "one with all of them": full} {
		for _, path := range fieldsOf(reflect.TypeFor[watchdog.Budget](), nil) {
			other := base
			setField(t, &other, path, 3)
			t.Run(of+", and another in its "+reflect.TypeOf(base).FieldByIndex(path[:1]).Name, func(t *testing.T) {
				require.Equal(t, watchdog.LimitsAfter(nil, other), watchdog.LimitsAfter(&base, other), "field %v", path)
				require.Equal(t, watchdog.LimitsAfter(nil, base), watchdog.LimitsAfter(&other, base), "field %v", path)
				if of == "one with all of them" {
					require.NotEqual(t, watchdog.LimitsAfter(nil, base), watchdog.LimitsAfter(nil, other), "field %v", path)
				}
			})
		}
	}
}

// fieldsOf are the paths of all fields that are no structs.
func fieldsOf(of reflect.Type, path []int) (all [][]int) {
	for i := range of.NumField() {
		field := append(slices.Clip(path), i)
		if inner := of.Field(i).Type; inner.Kind() == reflect.Struct {
			all = append(all, fieldsOf(inner, field)...)
		} else {
			all = append(all, field)
		}
	}
	return all
}

// setField gives a field of the budget a value that differs from that of another number.
func setField(t *testing.T, b *watchdog.Budget, path []int, n int64) {
	t.Helper()
	switch field := reflect.ValueOf(b).Elem().FieldByIndex(path).Addr().Interface().(type) {
	case *time.Duration:
		*field = time.Duration(n) * time.Hour
	case *int64:
		*field = n
	case *bool:
		*field = n%2 == 1
	case *string:
		*field = map[int64]string{2: "EUR", 3: "USD"}[n]
	case *[]float64:
		*field = []float64{float64(n) / 10}
	case *map[string]int64:
		*field = map[string]int64{"bash": n}
	case *[]watchdog.DirectiveKind:
		*field = make([]watchdog.DirectiveKind, n)
	case *[]watchdog.Usage:
		*field = []watchdog.Usage{{Limit: "turns", Used: n}}
	default:
		require.Failf(t, "a field without a value for the test", "%T", field)
	}
}

func TestLastCurrency(t *testing.T) {
	euros := watchdog.Budget{Spend: watchdog.Spend{Cost: watchdog.Money{Currency: "EUR"}}}
	dollars := watchdog.Amount{Cost: watchdog.Money{Micros: 5, Currency: "USD"}}
	begin := func(b watchdog.Budget) *watchdog.Watchdog {
		wd, err := watchdog.New(t.Context(), watchdog.Run{}, watchdog.Config{Budget: b})
		require.NoError(t, err)
		t.Cleanup(func() { _ = wd.Close() })
		return wd
	}
	for range 2 { // each after the other
		_, err := begin(euros).Admit(t.Context(), "", dollars)
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		_, err = begin(watchdog.Budget{}).Admit(t.Context(), "", dollars)
		require.NoError(t, err, "it counts what comes first")
	}
}
