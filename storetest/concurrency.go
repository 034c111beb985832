package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/seed62658d38/watchdog"
)

// callers is how many goroutines call a store at once.
const callers = 16

var concurrencyRules = []rule{
	{
		"one ID appended by many at once is kept once, and all succeed",
		"a timer, a poll and other processes fire for one window at the same moment: there is one cancel, and each of them reports that one",
		func(ctx context.Context, store watchdog.EventStore) error { return raceForOneID(ctx, store) },
	},
	{
		"many appends at once are all kept",
		"many runs share one store; an append that returned nil and is not there is a cancel that never happened",
		func(ctx context.Context, store watchdog.EventStore) error {
			const perCaller = 8
			var want []string
			for i := range callers * perCaller {
				want = append(want, fmt.Sprint("event-", i))
			}
			err := atOnce(func(caller int) error {
				return each(want[caller*perCaller:][:perCaller], func(id string) error {
					return put(ctx, store, numbered(id, caller))
				})
			})
			return errors.Join(err, holds(ctx, store, want...))
		},
	},
	{
		"a read sees what was appended before it",
		"a watchdog appends its cancel and then reads which one is stored; an answer from before, kept somewhere, says there is none",
		func(ctx context.Context, store watchdog.EventStore) error {
			return errors.Join(
				put(ctx, store, numbered("a", 1)), holds(ctx, store, "a"),
				put(ctx, store, numbered("b", 2)), holds(ctx, store, "a", "b"),
			)
		},
	},
}

// raceForOneID appends one ID through all the stores at once, each caller with a payload of its own, and checks that
// every caller reads the same event afterwards.
func raceForOneID(ctx context.Context, stores ...watchdog.EventStore) error {
	seen := make([]string, callers)
	err := atOnce(func(caller int) error {
		store, e := stores[caller%len(stores)], numbered("contested", 1)
		e.Payload = fmt.Appendf(nil, `{"caller":%d}`, caller)
		got, err := roundTrip(ctx, store, e)
		seen[caller] = string(got.Payload)
		return err
	})
	if err != nil {
		return err
	}
	for _, payload := range seen {
		if payload != seen[0] {
			return fmt.Errorf("callers read different events under one ID: %s and %s", seen[0], payload)
		}
	}
	return holds(ctx, stores[0], "contested")
}

// atOnce runs the call in all callers' goroutines, which start together, and returns one of their errors.
func atOnce(call func(caller int) error) error {
	var all sync.WaitGroup
	start, errs := make(chan struct{}), make([]error, callers)
	for caller := range callers {
		all.Go(func() {
			<-start
			errs[caller] = call(caller)
		})
	}
	close(start)
	all.Wait()
	return cmp.Or(errs...)
}
