package storetest

import (
	"bytes"
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
func put(events ...watchdog.Event) eventStep {
	return func(e *eventEnv) { contract.Must(e.Store.Append(e.Ctx, copies(events)...), "append %s", list(events)) }
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
func refuses(what string, want error, events ...watchdog.Event) eventStep {
	return inTurn(fails(what, want, put(events...)), func(e *eventEnv) {
		in(func() { holds("before")(e) }, "%s: Append returned an error and still wrote", what)
	})
}

// read is a Read of the run that must succeed.
func read(e *eventEnv) []watchdog.Event { return readAt(e, watchdog.AggregateType, runID) }

func readAt(e *eventEnv, aggregateType, aggregateID string) []watchdog.Event {
	events, err := e.Store.Read(e.Ctx, aggregateType, aggregateID)
	contract.Must(err, "read aggregate %q", aggregateID)
	return events
}

// only returns the one event that the aggregate of an event must have.
func only(e *eventEnv, like watchdog.Event) watchdog.Event {
	events := readAt(e, like.AggregateType, like.AggregateID)
	contract.Require(len(events) == 1, "aggregate %q: got events %s, want one", like.AggregateID, list(events))
	return events[0]
}

// keeps checks that the aggregate of the event has only this one, as it was appended.
func keeps(want watchdog.Event) eventStep {
	return func(e *eventEnv) { same(only(e, want), want) }
}

// comesBack appends an event to an empty aggregate and checks that it is read as appended.
func comesBack(e watchdog.Event) eventStep { return inTurn(put(e), keeps(e)) }

// roundTrip appends an event to an empty aggregate and returns what is read.
func roundTrip(e *eventEnv, appended watchdog.Event) watchdog.Event {
	put(appended)(e)
	return only(e, appended)
}

// holds checks that the run has the events with these IDs, each once and in any order.
func holds(want ...string) eventStep { return holdsAt(runID, want...) }

// holdsAt is holds for another aggregate.
func holdsAt(aggregateID string, want ...string) eventStep {
	return func(e *eventEnv) {
		got := slices.Sorted(slices.Values(ids(readAt(e, watchdog.AggregateType, aggregateID))))
		sameNames("events of "+aggregateID, got, slices.Sorted(slices.Values(want)))
	}
}

// isOrdered checks that the run has these events in this order.
func isOrdered(want ...string) eventStep {
	return func(e *eventEnv) { sameNames("events", ids(read(e)), want) }
}

func ids(events []watchdog.Event) []string {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = e.ID
	}
	return names
}

func list(events []watchdog.Event) string { return contract.Shorten(ids(events)) }
