package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
)

var refusalRules = []eventRule{
	{"an invalid event is refused with ErrInvalid",
		"a caller retries if the store fails, but not if the event can never be stored: errors.Is tells them apart",
		refusesEach(flaws, watchdog.ErrInvalid)},
	{"a text longer than its column is refused",
		"a text that is cut becomes another run's ID, and the event is lost for its own run", refusesEach(overlong, nil)},
}

// A flaw makes a valid event invalid.
type flaw struct {
	name  string
	spoil func(*watchdog.Event)
}

var flaws = []flaw{
	{"an empty ID", func(e *watchdog.Event) { e.ID = "" }},
	{"a blank ID", func(e *watchdog.Event) { e.ID = "  " }},
	{"an ID with a line break", func(e *watchdog.Event) { e.ID = "a\nb" }},
	{"an ID with a NUL", func(e *watchdog.Event) { e.ID = "a\x00b" }},
	{"an ID that is not UTF-8", func(e *watchdog.Event) { e.ID = "a\xff" }},
	{"an empty aggregate type", func(e *watchdog.Event) { e.AggregateType = "" }},
	{"an empty aggregate ID", func(e *watchdog.Event) { e.AggregateID = "" }},
	{"an aggregate ID with a control character", func(e *watchdog.Event) { e.AggregateID = runID + "\x1b" }},
	{"an empty event type", func(e *watchdog.Event) { e.Type = "" }},
	{"a consensus ID with a control character", func(e *watchdog.Event) { e.ConsensusID = "\t" }},
	{"a zero timestamp", func(e *watchdog.Event) { e.Timestamp = time.Time{} }},
	{"a timestamp after the year 9999", func(e *watchdog.Event) { e.Timestamp = noon.AddDate(8000, 0, 0) }},
	{"a timestamp before the year 1", func(e *watchdog.Event) { e.Timestamp = noon.AddDate(-2030, 0, 0) }},
	{"no payload", func(e *watchdog.Event) { e.Payload = nil }},
	{"a payload that is broken JSON", func(e *watchdog.Event) { e.Payload = []byte(`{"a":`) }},
	{"a payload that is an array", func(e *watchdog.Event) { e.Payload = []byte(`[1]`) }},
	{"a payload that is null", func(e *watchdog.Event) { e.Payload = []byte(`null`) }},
	{"a payload of two objects", func(e *watchdog.Event) { e.Payload = []byte(`{}{}`) }},
}

var overlong = []flaw{
	{"an ID", func(e *watchdog.Event) { e.ID = strings.Repeat("x", watchdog.MaxEventID+1) }},
	{"an aggregate type", func(e *watchdog.Event) { e.AggregateType = strings.Repeat("x", watchdog.MaxAggregateType+1) }},
	{"an aggregate ID", func(e *watchdog.Event) { e.AggregateID = strings.Repeat("é", watchdog.MaxAggregateID+1) }},
	{"an event type", func(e *watchdog.Event) { e.Type = strings.Repeat("x", watchdog.MaxEventType+1) }},
	{"a consensus ID", func(e *watchdog.Event) { e.ConsensusID = strings.Repeat("é", watchdog.MaxConsensusID+1) }},
}

// refusesEach appends an event with each flaw, which must fail, with the wanted error if there is one.
func refusesEach(flaws []flaw, want error) eventStep {
	return inTurn(put(numbered("before", 0)), forEach(flaws, func(f flaw) eventStep {
		return refuses(f.name, want, with(numbered("flawed", 1), f.spoil))
	}))
}

var batchRules = []eventRule{
	{"a batch with one invalid event stores nothing",
		"a cancel and its details are appended together: with half of a batch a run ends without its reason", inTurn(
			put(numbered("before", 0)),
			refuses("the second event of three has no ID", nil, numbered("first", 1), numbered("", 2), numbered("last", 3)),
		)},
	{"appending no events does nothing",
		"a caller that collected nothing does not have to check that before it appends", put()},
	{"a batch may have events of several aggregates",
		"a run and its layers are recorded in one batch, each under its own ID", inTurn(
			put(inAggregate(numbered("1", 1), "x"), inAggregate(numbered("2", 2), "y"), inAggregate(numbered("3", 3), "x")),
			holdsAt("x", "1", "3"),
			holdsAt("y", "2"),
		)},
	{"a batch of ten thousand events is stored completely",
		"after an outage a host appends all that it has; the store must get around a limit on parameters", func(e *eventEnv) {
			events := make([]watchdog.Event, 10_000)
			for i := range events {
				events[i] = numbered(fmt.Sprintf("event-%05d", i), i)
			}
			inTurn(put(events...), holds(ids(events)...))(e)
		}},
}
