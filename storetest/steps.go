package storetest

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

// runID is the aggregate ID of the events in checks that are not about aggregates.
const runID = "run-1"

// noon is the time from which numbered counts.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// numbered returns an event of the run, n seconds after noon. All its fields are plain, so that a check depends only on
// the fields that it changes.
func numbered(id string, n int) watchdog.Event {
	return watchdog.Event{
		ID:            id,
		AggregateType: watchdog.AggregateType,
		AggregateID:   runID,
		Type:          watchdog.EventCancel,
		Payload:       fmt.Appendf(nil, `{"n":%d}`, n),
		Timestamp:     noon.Add(time.Duration(n) * time.Second),
	}
}

// inAggregate returns the event with another aggregate ID.
func inAggregate(e watchdog.Event, aggregateID string) watchdog.Event {
	e.AggregateID = aggregateID
	return e
}

// with returns an event or a slice after a change.
func with[T any](value T, change func(*T)) T {
	change(&value)
	return value
}

// put appends the events.
func put(events ...watchdog.Event) step {
	return func(ctx context.Context, store watchdog.EventStore) error {
		if err := store.Append(ctx, copies(events)...); err != nil {
			return fmt.Errorf("append %s: %w", list(events), err)
		}
		return nil
	}
}

// copies returns events for a store, which may change them.
func copies(events []watchdog.Event) []watchdog.Event {
	events = slices.Clone(events)
	for i := range events {
		events[i].Payload = bytes.Clone(events[i].Payload)
	}
	return events
}

// refuses appends events that must fail, with the wanted error if there is one, beside the one event "before".
func refuses(what string, want error, events ...watchdog.Event) step {
	return inTurn(fails(what, want, put(events...)), func(ctx context.Context, store watchdog.EventStore) error {
		if err := holds("before")(ctx, store); err != nil {
			return fmt.Errorf("%s: Append returned an error and still wrote: %w", what, err)
		}
		return nil
	})
}

// reads is a Read that must succeed. It checks the events.
func reads(aggregateType, aggregateID string, check func(events []watchdog.Event) error) step {
	return func(ctx context.Context, store watchdog.EventStore) error {
		events, err := store.Read(ctx, aggregateType, aggregateID)
		if err == nil {
			err = check(events)
		}
		if err != nil {
			return fmt.Errorf("read aggregate %q: %w", aggregateID, err)
		}
		return nil
	}
}

// only reads the aggregate of an event, and checks the one event that it must have.
func only(like watchdog.Event, check func(got watchdog.Event) error) step {
	return reads(like.AggregateType, like.AggregateID, func(events []watchdog.Event) error {
		if len(events) != 1 {
			return fmt.Errorf("got events %s, want one", list(events))
		}
		return check(events[0])
	})
}

// keeps checks that the aggregate of the event has only this one, as it was appended.
func keeps(want watchdog.Event) step {
	return only(want, func(got watchdog.Event) error { return differs(got, want) })
}

// comesBack appends an event to an empty aggregate and checks that it is read as appended.
func comesBack(e watchdog.Event) step { return inTurn(put(e), keeps(e)) }

// roundTrip appends an event to an empty aggregate and checks what is read.
func roundTrip(e watchdog.Event, check func(got watchdog.Event) error) step {
	return inTurn(put(e), only(e, check))
}

// holds checks that the run has the events with these IDs, each once and in any order.
func holds(want ...string) step { return holdsAt(runID, want...) }

// holdsAt is holds for another aggregate.
func holdsAt(aggregateID string, want ...string) step {
	return reads(watchdog.AggregateType, aggregateID, func(events []watchdog.Event) error {
		return sameNames("events", slices.Sorted(slices.Values(ids(events))), slices.Sorted(slices.Values(want)))
	})
}

// isOrdered checks that the run has these events in this order.
func isOrdered(want ...string) step {
	return reads(watchdog.AggregateType, runID, func(events []watchdog.Event) error {
		return sameNames("events", ids(events), want)
	})
}

// differFrom returns an error if the events are not the appended ones, in this order.
func differFrom(got, want []watchdog.Event) error {
	err := sameNames("events", ids(got), ids(want))
	for i := 0; err == nil && i < len(want); i++ {
		err = differs(got[i], want[i])
	}
	return err
}

func ids(events []watchdog.Event) []string {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = e.ID
	}
	return names
}

func list(events []watchdog.Event) string { return contract.Shorten(ids(events)) }
