package storetest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var spendScopeRules = []spendRule{
	{
		"scopes are charged apart",
		"a tenant must not pay for another one",
		func(s spender) error {
			return contract.Each([]string{tenant, "tenant-2", "Tenant-1", "tenant-1 ", "tenant"}, func(scope string) error {
				slice := asks("of "+scope, 20, 60)
				slice.Scope = scope
				return s.gets(slice, 20, 20)
			})
		},
	},
	{
		"an ID that was charged to another scope is ErrInvalid, and charges nothing",
		"two hosts that draw the same ID would both use the one slice",
		func(s spender) error {
			if _, err := s.take(asks("a", 20, 60)); err != nil {
				return err
			}
			other := asks("a", 20, 60)
			other.Scope = "tenant-2"
			before, err := s.charged(other)
			if err != nil {
				return err
			}
			_, err = s.take(other)
			return errors.Join(isInvalid(err, "take of an ID of another scope"), s.holds(other, before))
		},
	},
	{
		"a scope has one currency",
		"a sum of euros and dollars is no limit",
		func(s spender) error {
			return errors.Join(
				s.pays(tenant, "EUR"), s.paysNot(watchdog.PeriodNone),
				s.pays(tenant, "EUR"), s.pays(tenant, ""),
				s.paysNot(watchdog.PeriodNone), s.paysNot(watchdog.PeriodDay),
				s.pays("tenant-2", "USD"),
			)
		},
	},
	{
		"a scope that had no currency has that of the first slice with one",
		"a host that begins to limit money uses the scope that it limited requests by",
		func(s spender) error {
			return errors.Join(
				s.pays(tenant, ""), s.pays(tenant, "EUR"),
				s.paysNot(watchdog.PeriodNone),
			)
		},
	},
	{
		"IDs and scopes are kept as they are",
		"a scope that is cut to fit is another tenant's, and a quote in a name must not end a statement",
		func(s spender) error {
			wide := strings.Repeat("語", watchdog.MaxAggregateID-1)
			for i, scope := range []string{`o'brien "x"; --`, `%_\`, "$1 ?1 :a @b", "é", "e\u0301", wide + "a", wide + "b"} {
				id := strings.Repeat("é", watchdog.MaxEventID-1) + fmt.Sprint(i)
				if i%2 == 0 {
					id = fmt.Sprintf(`'%d"; \`, i)
				}
				slice := asks(id, 20, 60)
				slice.Scope = scope
				err := inTurn(
					func() error { return s.gets(slice, 20, 20) }, func() error { return s.gets(slice, 20, 20) },
					func() error { return s.giveBack(id, 5) }, func() error { return s.holds(slice, requests(15)) },
				)
				if err != nil {
					return fmt.Errorf("scope %.40q: %w", scope, err)
				}
			}
			return nil
		},
	},
	{
		"IDs that differ in case are different slices",
		"IDs may be base64 or nanoids: the second slice would be used and never charged",
		func(s spender) error {
			return errors.Join(s.gets(asks("Ab", 20, 60), 20, 20), s.gets(asks("aB", 20, 60), 20, 40))
		},
	},
}

// pays takes a slice whose cost is in a currency.
func (s spender) pays(scope, currency string) error {
	g, err := s.take(costing(scope, watchdog.PeriodNone, currency))
	if err == nil && !g.Fits {
		err = fmt.Errorf("a slice in %q did not fit", currency)
	}
	if err != nil {
		return fmt.Errorf("a slice in %q: %w", currency, err)
	}
	return nil
}

// paysNot takes one in dollars that must be refused, and checks that the window without an end is charged as before.
func (s spender) paysNot(period watchdog.Period) error {
	forever := costing(tenant, watchdog.PeriodNone, "")
	before, err := s.charged(forever)
	if err != nil {
		return err
	}
	_, err = s.take(costing(tenant, period, "USD"))
	return errors.Join(isInvalid(err, "take in USD of a scope that counts in EUR"), s.holds(forever, before))
}

// costing returns a slice with an ID of its own.
func costing(scope string, period watchdog.Period, currency string) watchdog.Slice {
	return watchdog.Slice{
		ID: freshID(), Scope: scope, Period: period, Currency: currency,
		Least: watchdog.Totals{Cost: 2}, Limit: watchdog.Totals{Cost: 60},
	}
}
