package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog"
)

var batchRules = []rule{
	{
		"a batch with one invalid event stores nothing",
		"a cancel and its details are appended together: with half of a batch a run ends without its reason",
		func(ctx context.Context, store watchdog.EventStore) error {
			if err := put(ctx, store, numbered("first", 0)); err != nil {
				return err
			}
			refusal := store.Append(ctx, numbered("before", 1), numbered("", 2), numbered("after", 3))
			return refused(ctx, store, refusal, "first", "the second event of three has no ID")
		},
	},
	{
		"appending no events does nothing",
		"a caller that collected nothing does not have to check that before it appends",
		func(ctx context.Context, store watchdog.EventStore) error {
			if err := store.Append(ctx); err != nil {
				return fmt.Errorf("append of no events: %w", err)
			}
			return nil
		},
	},
	{
		"a batch may have events of several aggregates",
		"a run and its layers are recorded in one batch, each under its own ID",
		func(ctx context.Context, store watchdog.EventStore) error {
			return errors.Join(
				put(ctx, store,
					inAggregate(numbered("1", 1), "x"), inAggregate(numbered("2", 2), "y"), inAggregate(numbered("3", 3), "x")),
				holdsAt(ctx, store, "x", "1", "3"),
				holdsAt(ctx, store, "y", "2"),
			)
		},
	},
	{
		"a batch of ten thousand events is stored completely",
		"after an outage a host appends all that it has; the store must get around a limit on parameters",
		func(ctx context.Context, store watchdog.EventStore) error {
			const many = 10_000
			events, names := make([]watchdog.Event, many), make([]string, many)
			for i := range events {
				names[i] = fmt.Sprintf("event-%05d", i)
				events[i] = numbered(names[i], i)
			}
			return errors.Join(put(ctx, store, events...), holds(ctx, store, names...))
		},
	},
}
