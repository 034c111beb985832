package storetest

import (
	"context"
	"errors"
	"strings"

	"github.com/seed62658d38/watchdog"
)

var fieldRules = []rule{
	{
		"every field is read as it was appended",
		"only the event says why a run ended; a lost or swapped column says something wrong",
		func(ctx context.Context, store watchdog.EventStore) error {
			return errors.Join(
				comesBack(ctx, store, watchdog.Event{
					ID: "full", AggregateType: "runtime_control", AggregateID: "run-full", Type: watchdog.EventResume,
					Payload: []byte(`{"reason":"on request"}`), Timestamp: noon, ConsensusID: "consensus-1",
				}),
				comesBack(ctx, store, inAggregate(numbered("without a consensus ID", 1), "run-plain")),
			)
		},
	},
	{
		"a text as long as its column fits",
		"a run ID that was accepted at the start must not be too long when the cancel is recorded; " +
			"lengths count characters, not bytes",
		func(ctx context.Context, store watchdog.EventStore) error {
			return errors.Join(
				comesBack(ctx, store, filled("x")),
				comesBack(ctx, store, filled("é")),
				comesBack(ctx, store, filled("🜁")),
			)
		},
	},
	{
		"a host's own kinds of event are kept beside ours",
		"the table is the host's event table: one query answers what happened to a run, whoever wrote it",
		func(ctx context.Context, store watchdog.EventStore) error {
			own := numbered("own", 1)
			own.AggregateType, own.AggregateID, own.Type = "order", "order-7", "shop.order.placed"
			beside := numbered("beside", 2)
			beside.Type = "interview.started"
			return errors.Join(
				comesBack(ctx, store, own),
				put(ctx, store, numbered("cancel", 1), beside),
				holds(ctx, store, "cancel", "beside"),
			)
		},
	},
}

// comesBack appends an event to an empty aggregate and checks that it is read as appended.
func comesBack(ctx context.Context, store watchdog.EventStore, e watchdog.Event) error {
	if err := put(ctx, store, e); err != nil {
		return err
	}
	events, err := store.Read(ctx, e.AggregateType, e.AggregateID)
	if err != nil {
		return err
	}
	if len(events) != 1 {
		return errors.New("read " + list(events) + ", want the one event appended: " + e.ID)
	}
	return differs(events[0], e)
}

// filled returns an event whose texts repeat the character to the full length of their columns.
func filled(character string) watchdog.Event {
	e := numbered(strings.Repeat(character, watchdog.MaxEventID), 1)
	e.AggregateType = strings.Repeat(character, watchdog.MaxAggregateType)
	e.AggregateID = strings.Repeat(character, watchdog.MaxAggregateID)
	e.Type = strings.Repeat(character, watchdog.MaxEventType)
	e.ConsensusID = strings.Repeat(character, watchdog.MaxConsensusID)
	return e
}
