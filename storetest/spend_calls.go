package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var spendCallRules = []spendRule{
	{"an invalid slice is refused with ErrInvalid",
		"a caller tries again if the store fails, but not if the slice can never be charged: errors.Is tells them apart",
		forEach(sliceFlaws, func(f sliceFlaw) spendStep {
			return fails("take of a slice with "+f.name, watchdog.ErrInvalid, takes(with(asks("flawed", 5, 60), f.spoil)))
		})},
	{"a take with a done context charges nothing and returns the context's error",
		"a call that was refused because the store took too long is not made: it must not be charged later",
		withDoneContexts(takes(asks("late", 5, 60)), uses(0))},
	{"a return with a done context gives nothing back and returns the context's error",
		"the caller no longer waits: it returns the slice again, with what is unused then",
		inTurn(gets(asks("a", 20, 60), 20, 20), withDoneContexts(givesBack("a", 5), uses(20)))},
	{"a slice that many take at once under one ID is charged once",
		"a call that is made again while the first one hangs meets it in the store",
		eachSpendRace(func(ctx context.Context, store watchdog.SpendStore, scope string) error {
			slice := inScope(asks(scope, 3, 60), scope)
			err := contract.AtOnce(callers, func(int) error {
				g, err := takeAtLast(ctx, store, slice)
				return errors.Join(err, equal("fits", g.Fits, true), equal("granted", g.Granted, slice.Least))
			})
			return errors.Join(err, isCharged(slice, slice.Least)(ctx, store))
		})},
	{"what many give back at once of one slice is given back once",
		"a return that is made again while the first one hangs meets it in the store",
		eachSpendRace(func(ctx context.Context, store watchdog.SpendStore, scope string) error {
			slice := inScope(asks(scope, 50, 60), scope)
			if err := gets(slice, 50, 50)(ctx, store); err != nil {
				return err
			}
			err := contract.AtOnce(callers, func(int) error {
				return atLast(ctx, func() error { return givesBack(slice.ID, 2)(ctx, store) })
			})
			return errors.Join(err, isCharged(slice, requests(48))(ctx, store))
		})},
	{"many callers at once never exceed the limit, and nothing is lost",
		"parallel calls that each check and then charge overshoot by their number",
		eachSpendRace(crowds)},
}

// A sliceFlaw makes a valid slice invalid.
type sliceFlaw struct {
	name  string
	spoil func(*watchdog.Slice)
}

var sliceFlaws = []sliceFlaw{
	{"an empty ID", func(s *watchdog.Slice) { s.ID = "" }},
	{"an ID with a NUL", func(s *watchdog.Slice) { s.ID = "a\x00b" }},
	{"an ID that is too long", func(s *watchdog.Slice) { s.ID = strings.Repeat("x", watchdog.MaxEventID+1) }},
	{"an empty scope", func(s *watchdog.Slice) { s.Scope = "" }},
	{"a scope with a line break", func(s *watchdog.Slice) { s.Scope = "a\nb" }},
	{"a scope that is too long", func(s *watchdog.Slice) { s.Scope = strings.Repeat("é", watchdog.MaxAggregateID+1) }},
	{"a scope that is not UTF-8", func(s *watchdog.Slice) { s.Scope = "a\xff" }},
	{"a long currency", func(s *watchdog.Slice) { s.Currency = strings.Repeat("E", 17) }},
	{"a negative least", func(s *watchdog.Slice) { s.Least.Requests = -1 }},
	{"a negative limit", func(s *watchdog.Slice) { s.Limit.Turns = -1 }},
	{"an unknown period", func(s *watchdog.Slice) { s.Period = "week" }},
	{"an unknown zone", func(s *watchdog.Slice) { s.Zone = "Europe/Atlantis" }},
	{"the zone of the machine", func(s *watchdog.Slice) { s.Zone = "Local" }},
}

// eachSpendRace runs a race in a scope of its own, several times.
func eachSpendRace(race func(ctx context.Context, store watchdog.SpendStore, scope string) error) spendStep {
	return func(ctx context.Context, store watchdog.SpendStore) error {
		const fewest, most = 3, 20
		return eachRound(fewest, most, func(round int) error {
			return race(ctx, store, fmt.Sprint("contested-", round))
		})
	}
}

// atLast makes a call as a host does: what fails is tried again under the same ID. A store may give up waiting for the
// lock of another caller.
func atLast(ctx context.Context, call func() error) error {
	const tries = 50
	err := call()
	for range tries {
		if err == nil || ctx.Err() != nil || errors.Is(err, watchdog.ErrInvalid) {
			break
		}
		err = call()
	}
	return err
}

func takeAtLast(ctx context.Context, store watchdog.SpendStore, slice watchdog.Slice) (g watchdog.Grant, err error) {
	err = atLast(ctx, func() error {
		g, err = take(ctx, store, slice)
		return err
	})
	return g, err
}

// crowds has 64 callers take and return slices of one scope, and compares what they were told with what is charged.
func crowds(ctx context.Context, store watchdog.SpendStore, scope string) error {
	const crowd, each, limit = 64, 3, 60
	var mu sync.Mutex
	var used watchdog.Totals
	err := contract.AtOnce(crowd, func(caller int) error {
		for n := range each {
			slice := inScope(asks(fmt.Sprintf("%s-%d-%d", scope, caller, n), 2, limit), scope)
			kept, err := takeSome(ctx, store, slice, n == 1)
			if err != nil {
				return err
			}
			mu.Lock()
			used = used.Add(kept)
			mu.Unlock()
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case used.Requests > limit:
		return fmt.Errorf("%d callers together were granted %d requests of %d", crowd, used.Requests, limit)
	}
	return isCharged(watchdog.Slice{Scope: scope}, used)(ctx, store)
}

// takeSome takes a slice, may return it, and returns what it keeps of it.
func takeSome(
	ctx context.Context, store watchdog.SpendStore, slice watchdog.Slice, giveBack bool,
) (kept watchdog.Totals, err error) {
	g, err := takeAtLast(ctx, store, slice)
	switch {
	case err != nil:
		return kept, err
	case g.Charged.Requests > slice.Limit.Requests:
		return kept, fmt.Errorf("the window is charged with %d requests of %d", g.Charged.Requests, slice.Limit.Requests)
	case g.Fits && giveBack:
		return kept, atLast(ctx, func() error { return returns(slice.ID, g.Granted)(ctx, store) })
	}
	return g.Granted, nil
}
