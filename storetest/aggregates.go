package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var aggregateRules = []rule{
	{
		"an aggregate without events is empty, and no error",
		"a new run has no events: a watchdog that attaches to it must be able to tell that from a store that fails",
		func(ctx context.Context, store watchdog.EventStore) error {
			events, err := store.Read(ctx, watchdog.AggregateType, "unknown")
			if err != nil {
				return fmt.Errorf("read an aggregate without events: %w", err)
			}
			if len(events) != 0 {
				return fmt.Errorf("read %s of an aggregate without events", list(events))
			}
			return nil
		},
	},
	{
		"aggregates of one ID and different types are kept apart",
		"the host's own session and the watchdog's run may have one ID; reading one must not return the other's events",
		func(ctx context.Context, store watchdog.EventStore) error {
			other := numbered("session's", 2)
			other.AggregateType = "session"
			return errors.Join(put(ctx, store, numbered("run's", 1), other), holds(ctx, store, "run's"))
		},
	},
	{
		"a run and its layers are kept apart",
		"a step's cancel, stored under run/step, would end the whole session if it were read as the run's",
		func(ctx context.Context, store watchdog.EventStore) error {
			return keptApart(ctx, store, "a", "a/b", "a/b/c", "a/", "ab", "b")
		},
	},
	{
		"nothing in an aggregate ID is a pattern",
		"a query with LIKE, GLOB or a regular expression finds another run's cancel if the ID has such a character",
		func(ctx context.Context, store watchdog.EventStore) error {
			return keptApart(ctx, store, "r1n", "r_n", "r%", "%", "r*", "r?n", "r[1]n", "r.n", "^r", `r\_n`)
		},
	},
	{
		"case, accents and spaces in an aggregate ID count",
		"a collation that treats R and r, é and e, or a trailing space as equal makes one run of two",
		func(ctx context.Context, store watchdog.EventStore) error {
			return keptApart(ctx, store,
				"run", "RUN", "Run", "rün", "run ", " run", "straße", "STRASSE", "\u00e9", "e\u0301", "e")
		},
	},
	{
		"quotes and other symbols in an aggregate ID are only characters",
		"if an ID ends a quoted text, or a driver cannot encode it, the cancel of its run cannot be recorded",
		func(ctx context.Context, store watchdog.EventStore) error {
			return keptApart(ctx, store, "o'brien", "obrien", `"run"`, "`run`", "run;--", `\`, `\\`, "$1", "?1", ":id", "@id",
				"#", "&amp;", "&", "null", "0", "00", "0.0", "1e1", "10",
				"日本語", "🜁🜂", "a\u200db", "\u202ea", "\ufeff", "a\u2028b")
		},
	},
}

// keptApart appends an event to each aggregate and checks that each has its own event and no other.
func keptApart(ctx context.Context, store watchdog.EventStore, aggregates ...string) error {
	for i, aggregate := range aggregates {
		if err := put(ctx, store, inAggregate(numbered(fmt.Sprint(i), i), aggregate)); err != nil {
			return fmt.Errorf("aggregate %q: %w", aggregate, err)
		}
	}
	var i int
	return contract.Each(aggregates, func(aggregate string) error {
		i++
		return holdsAt(ctx, store, aggregate, fmt.Sprint(i-1))
	})
}
