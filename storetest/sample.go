package storetest

import (
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

func put(ctx context.Context, store watchdog.EventStore, events ...watchdog.Event) error {
	if err := store.Append(ctx, events...); err != nil {
		return fmt.Errorf("append %s: %w", list(events), err)
	}
	return nil
}

func get(ctx context.Context, store watchdog.EventStore, aggregateID string) ([]watchdog.Event, error) {
	events, err := store.Read(ctx, watchdog.AggregateType, aggregateID)
	if err != nil {
		return nil, fmt.Errorf("read aggregate %q: %w", aggregateID, err)
	}
	return events, nil
}

// getOne reads the only event of an aggregate.
func getOne(ctx context.Context, store watchdog.EventStore, aggregateID string) (watchdog.Event, error) {
	events, err := get(ctx, store, aggregateID)
	if err == nil && len(events) != 1 {
		err = fmt.Errorf("aggregate %q: read %s, want one event", aggregateID, list(events))
	}
	if err != nil {
		return watchdog.Event{}, err
	}
	return events[0], nil
}

// roundTrip appends one event and reads it back from its aggregate, which must be empty before.
func roundTrip(ctx context.Context, store watchdog.EventStore, e watchdog.Event) (watchdog.Event, error) {
	if err := put(ctx, store, e); err != nil {
		return watchdog.Event{}, err
	}
	return getOne(ctx, store, e.AggregateID)
}

// holds checks that the run has the events with these IDs, each once and in any order.
func holds(ctx context.Context, store watchdog.EventStore, want ...string) error {
	return holdsAt(ctx, store, runID, want...)
}

// holdsAt is holds for another aggregate.
func holdsAt(ctx context.Context, store watchdog.EventStore, aggregateID string, want ...string) error {
	events, err := get(ctx, store, aggregateID)
	if err != nil {
		return err
	}
	got := ids(events)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("aggregate %q: read events %s, want %s", aggregateID, contract.Shorten(got), contract.Shorten(want))
	}
	return nil
}

// holdsFirst checks that the aggregate has only this event, with its own payload.
func holdsFirst(ctx context.Context, store watchdog.EventStore, want watchdog.Event) error {
	got, err := getOne(ctx, store, want.AggregateID)
	if err != nil {
		return err
	}
	if err := differs(got, want); err != nil {
		return fmt.Errorf("the first event was changed: %w", err)
	}
	return nil
}

// refused checks that an append failed, and that the run still has only the event that was stored before.
func refused(ctx context.Context, store watchdog.EventStore, err error, before, what string) error {
	if err == nil {
		return fmt.Errorf("%s: Append returned nil, want an error", what)
	}
	if err := holds(ctx, store, before); err != nil {
		return fmt.Errorf("%s: Append returned an error and still wrote: %w", what, err)
	}
	return nil
}

func ids(events []watchdog.Event) []string {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = e.ID
	}
	return names
}

func list(events []watchdog.Event) string { return contract.Shorten(ids(events)) }
