package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog"
)

type (
	spendRule = rule[watchdog.SpendStore]
	spendStep = check[watchdog.SpendStore]
)

// tenant is the scope of the checks that are not about scopes.
const tenant = "tenant-1"

// asks returns a slice that needs so many requests of so many. It needs nothing else, so that nothing else is granted.
// A limit below 64 has no sixty-fourth: what is granted is what is needed.
func asks(id string, least, limit int64) watchdog.Slice {
	return watchdog.Slice{ID: id, Scope: tenant, Least: requests(least), Limit: requests(limit)}
}

func requests(n int64) watchdog.Totals { return watchdog.Totals{Requests: n} }

func inScope(s watchdog.Slice, scope string) watchdog.Slice {
	s.Scope = scope
	return s
}

func freshID() string { return rand.Text() }

func take(ctx context.Context, store watchdog.SpendStore, slice watchdog.Slice) (watchdog.Grant, error) {
	g, err := store.Take(ctx, slice)
	if err != nil {
		err = fmt.Errorf("take slice %.40q of scope %.40q: %w", slice.ID, slice.Scope, err)
	}
	return g, err
}

// takes is a Take that must succeed. It checks the grant.
func takes(slice watchdog.Slice, checks ...func(g watchdog.Grant) error) spendStep {
	return func(ctx context.Context, store watchdog.SpendStore) error {
		g, err := take(ctx, store, slice)
		if err != nil {
			return err
		}
		for _, check := range checks {
			if err := check(g); err != nil {
				return fmt.Errorf("slice %.40q, %+v of %+v: %w", slice.ID, slice.Least, slice.Limit, err)
			}
		}
		return nil
	}
}

// grants takes a slice that must fit, and checks what is granted and what the window is charged with then.
func grants(slice watchdog.Slice, granted, charged watchdog.Totals) spendStep {
	return takes(slice, func(g watchdog.Grant) error {
		return errors.Join(
			equal("fits", g.Fits, true), equal("granted", g.Granted, granted), equal("charged", g.Charged, charged),
		)
	})
}

// gets takes a slice of requests that must be granted.
func gets(slice watchdog.Slice, granted, charged int64) spendStep {
	return grants(slice, requests(granted), requests(charged))
}

// unfit takes a slice that must not fit.
func unfit(slice watchdog.Slice) spendStep {
	return takes(slice, func(g watchdog.Grant) error {
		return errors.Join(equal("fits", g.Fits, false), equal("granted", g.Granted, watchdog.Totals{}))
	})
}

// givesBack returns unused requests of a slice.
func givesBack(id string, n int64) spendStep { return returns(id, requests(n)) }

func returns(id string, unused watchdog.Totals) spendStep {
	return func(ctx context.Context, store watchdog.SpendStore) error {
		if err := store.Return(ctx, id, unused); err != nil {
			return fmt.Errorf("return %+v of slice %.40q: %w", unused, id, err)
		}
		return nil
	}
}

// charged returns what the window of a slice is charged with, by asking for what cannot fit.
func charged(ctx context.Context, store watchdog.SpendStore, in watchdog.Slice) (watchdog.Totals, error) {
	const far = 1 << 40
	in.ID, in.Least, in.Limit, in.Force = "look", requests(far), watchdog.Totals{}, false
	g, err := take(ctx, store, in)
	return g.Charged, err
}

// isCharged checks what the window of a slice is charged with.
func isCharged(in watchdog.Slice, want watchdog.Totals) spendStep {
	return func(ctx context.Context, store watchdog.SpendStore) error {
		got, err := charged(ctx, store, in)
		if err != nil {
			return err
		}
		return equal(fmt.Sprintf("charged in scope %.40q", in.Scope), got, want)
	}
}

// uses checks how many requests the tenant is charged with.
func uses(n int64) spendStep { return isCharged(asks("", 0, 0), requests(n)) }

// leaves makes steps, and checks that the window of a slice is charged as before.
func leaves(in watchdog.Slice, steps ...spendStep) spendStep {
	return func(ctx context.Context, store watchdog.SpendStore) error {
		before, err := charged(ctx, store, in)
		if err != nil {
			return err
		}
		return inTurn(inTurn(steps...), isCharged(in, before))(ctx, store)
	}
}
