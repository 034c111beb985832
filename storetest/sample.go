package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
)

// home is the aggregate ID of the events that checks use when the aggregate is not what they are about.
const runID = "run-1"

// noon is the second that numbered counts from.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// numbered returns an event of the home aggregate, n seconds after noon: plain in everything, so that only a check
// that changes a field depends on how a store treats it.
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

// of returns the event moved to another aggregate ID.
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

// keep appends one event and reads it back from its aggregate, which must be empty before.
func roundTrip(ctx context.Context, store watchdog.EventStore, e watchdog.Event) (watchdog.Event, error) {
	if err := put(ctx, store, e); err != nil {
		return watchdog.Event{}, err
	}
	return getOne(ctx, store, e.AggregateID)
}

// holds checks that the home aggregate has the events with these IDs, each once and in any order.
func holds(ctx context.Context, store watchdog.EventStore, want ...string) error {
	return holdsAt(ctx, store, runID, want...)
}

func holdsAt(ctx context.Context, store watchdog.EventStore, aggregateID string, want ...string) error {
	events, err := get(ctx, store, aggregateID)
	if err != nil {
		return err
	}
	got := ids(events)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		return fmt.Errorf("aggregate %q: read events %s, want %s", aggregateID, shorten(got), shorten(want))
	}
	return nil
}

// holdsFirst checks that the home aggregate has this event alone, with its own payload and not another's.
func holdsFirst(ctx context.Context, store watchdog.EventStore, want watchdog.Event) error {
	got, err := getOne(ctx, store, want.AggregateID)
	if err != nil {
		return err
	}
	if err := differs(got, want); err != nil {
		return fmt.Errorf("the event that was first did not stay as it was: %w", err)
	}
	return nil
}

// refused checks that an append failed and that the home aggregate still holds only the witness that was there before.
func refused(ctx context.Context, store watchdog.EventStore, err error, witness string, what string) error {
	if err == nil {
		return fmt.Errorf("%s: Append returned nil, want an error", what)
	}
	if err := holds(ctx, store, witness); err != nil {
		return fmt.Errorf("%s: Append returned an error and wrote all the same: %w", what, err)
	}
	return nil
}

// each runs a check for every one of the things and joins what failed.
func each[T any](things []T, check func(T) error) error {
	var failed []error
	for _, thing := range things {
		failed = append(failed, check(thing))
	}
	return errors.Join(failed...)
}

func ids(events []watchdog.Event) []string {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = e.ID
	}
	return names
}

func list(events []watchdog.Event) string { return shorten(ids(events)) }

// shorten keeps a failure that is about thousands of events readable.
func shorten(names []string) string {
	const enough = 20
	if len(names) <= enough {
		return fmt.Sprintf("%q", names)
	}
	return fmt.Sprintf("%q and %d more", names[:enough], len(names)-enough)
}
