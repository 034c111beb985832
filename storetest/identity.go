package storetest

import (
	"context"
	"errors"

	"github.com/seed62658d38/watchdog"
)

var identityRules = []rule{
	{
		"an event appended again is kept once, without an error",
		"an append whose answer was lost is repeated: the second one must not store the event twice, nor fail",
		func(ctx context.Context, store watchdog.EventStore) error {
			e := numbered("a", 1)
			return errors.Join(put(ctx, store, e), put(ctx, store, e), holds(ctx, store, "a"))
		},
	},
	{
		"of two events with one ID the first is kept, whatever the second says",
		"two processes that fire for one window report the same stop only if the first event stays unchanged",
		func(ctx context.Context, store watchdog.EventStore) error {
			first, second := numbered("a", 1), numbered("a", 5)
			second.Type, second.ConsensusID = watchdog.EventResume, "c"
			return errors.Join(put(ctx, store, first), put(ctx, store, second), holdsFirst(ctx, store, first))
		},
	},
	{
		"a batch of known and new IDs stores the new ones",
		"events that failed are appended again with the next ones: the stored ones must not keep the new ones out",
		func(ctx context.Context, store watchdog.EventStore) error {
			return errors.Join(
				put(ctx, store, numbered("a", 1), numbered("c", 3)),
				put(ctx, store, numbered("a", 1), numbered("b", 2), numbered("c", 3), numbered("d", 4)),
				holds(ctx, store, "a", "b", "c", "d"),
			)
		},
	},
	{
		"an ID that is twice in one batch is kept once, the first",
		"a host that collects events does not have to remove duplicates before it appends them",
		func(ctx context.Context, store watchdog.EventStore) error {
			first, second := numbered("a", 1), numbered("a", 1)
			second.Payload = []byte(`{"n":"second"}`)
			return errors.Join(put(ctx, store, first, second), holdsFirst(ctx, store, first))
		},
	},
	{
		"an ID that is stored in one aggregate is taken in all",
		"the ID is the primary key of the table; if a store checks it only within an aggregate, two events have one ID",
		func(ctx context.Context, store watchdog.EventStore) error {
			return errors.Join(
				put(ctx, store, inAggregate(numbered("a", 1), "x")),
				put(ctx, store, inAggregate(numbered("b", 2), "y")),
				put(ctx, store, inAggregate(numbered("a", 1), "y")),
				holdsAt(ctx, store, "x", "a"),
				holdsAt(ctx, store, "y", "b"),
			)
		},
	},
	{
		"IDs that differ in case are different events",
		"a host's IDs may be base64 or nanoids, where case matters: the second event would be lost and reported as stored",
		func(ctx context.Context, store watchdog.EventStore) error {
			return errors.Join(
				put(ctx, store, numbered("Ab", 1)), put(ctx, store, numbered("aB", 2)),
				holds(ctx, store, "Ab", "aB"),
			)
		},
	},
}
