package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

// callers is how many goroutines call a store at the same time.
const callers = 16

var concurrencyRules = []rule{
	{
		"one ID appended by many at once is kept once, and all succeed",
		"a timer, a poll and other processes fire for one window at one moment: all must report the one stored cancel",
		func(ctx context.Context, store watchdog.EventStore) error {
			return raceForOneID(ctx, fewestRounds, store)
		},
	},
	{
		"many appends at once are all kept",
		"many runs share one store; if an append returned nil and was not stored, a cancel is lost",
		func(ctx context.Context, store watchdog.EventStore) error {
			const perCaller = 8
			var want []string
			for i := range callers * perCaller {
				want = append(want, fmt.Sprint("event-", i))
			}
			err := contract.AtOnce(callers, func(caller int) error {
				return contract.Each(want[caller*perCaller:][:perCaller], func(id string) error {
					return put(ctx, store, numbered(id, caller))
				})
			})
			return errors.Join(err, holds(ctx, store, want...))
		},
	},
	{
		"a read sees what was appended before it",
		"a watchdog appends its cancel and then reads which one is stored; a cached answer would say that there is none",
		func(ctx context.Context, store watchdog.EventStore) error {
			return errors.Join(
				put(ctx, store, numbered("a", 1)), holds(ctx, store, "a"),
				put(ctx, store, numbered("b", 2)), holds(ctx, store, "a", "b"),
			)
		},
	},
}

// A race between stores has as many rounds as there is time for, within limits: a store that checks an ID and then
// writes may do both in less than a microsecond, and only two callers that meet in between show it. A slow store takes
// longer for that, and needs fewer rounds.
const (
	fewestRounds = 10
	mostRounds   = 2000
	raceTime     = time.Second
)

// raceForOneID races for one ID after the other, in at most so many rounds.
func raceForOneID(ctx context.Context, rounds int, stores ...watchdog.EventStore) error {
	began := time.Now()
	for round := range rounds {
		if round >= fewestRounds && time.Since(began) > raceTime {
			break
		}
		if err := raceOnce(ctx, fmt.Sprint("contested-", round), stores); err != nil {
			return err
		}
	}
	return nil
}

// raceOnce appends one ID through all stores at once, with a different payload from each caller. It checks that all
// callers then read the same event.
func raceOnce(ctx context.Context, id string, stores []watchdog.EventStore) error {
	seen := make([]string, callers)
	err := contract.AtOnce(callers, func(caller int) error {
		store, e := stores[caller%len(stores)], inAggregate(numbered(id, 1), id)
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
	return holdsAt(ctx, stores[0], id, id)
}
