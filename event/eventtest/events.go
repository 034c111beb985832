package eventtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog/event"
)

var appendRules = []eventRule{
	{"an invalid event is refused with ErrInvalid",
		"a caller retries if the store fails, but not if the event can never be stored: errors.Is tells them apart",
		refusesEach(flaws, event.ErrInvalid)},
	{"a text longer than its column is refused",
		"a text that is cut becomes another run's ID, and the event is lost for its own run", refusesEach(overlong, nil)},
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
			events := make([]event.Event, 10_000)
			for i := range events {
				events[i] = numbered(fmt.Sprintf("event-%05d", i), i)
			}
			inTurn(put(events...), holds(ids(events)...))(e)
		}},
	{"of events with one ID the first is kept, whatever the others say, and the appends succeed",
		"an append whose answer was lost is repeated, and two processes that fire for one window report one stop", inTurn(
			put(numbered("a", 1)),
			put(numbered("a", 1)),
			holds("a"),
			put(inAggregate(numbered("c", 1), "run-3")),
			put(with(inAggregate(numbered("c", 5), "run-3"), func(e *event.Event) {
				e.Type, e.ConsensusID = event.Resume, "c"
			})),
			keeps(inAggregate(numbered("c", 1), "run-3")),
			put(inAggregate(numbered("b", 1), "run-2"), inAggregate(numbered("b", 2), "run-2")), // in one batch
			keeps(inAggregate(numbered("b", 1), "run-2")),
		)},
	{"a batch of known and new IDs stores the new ones",
		"events that failed are appended again with the next ones: the stored ones must not keep the new ones out", inTurn(
			put(numbered("a", 1), numbered("c", 3)),
			put(numbered("a", 1), numbered("b", 2), numbered("c", 3), numbered("d", 4)),
			holds("a", "b", "c", "d"),
		)},
	{"an ID that is stored in one aggregate is taken in all",
		"the ID is the primary key of the table: if it is checked only within an aggregate, two events have one ID", inTurn(
			put(inAggregate(numbered("a", 1), "x")),
			put(inAggregate(numbered("b", 2), "y")),
			put(inAggregate(numbered("a", 1), "y")),
			holdsAt("x", "a"),
			holdsAt("y", "b"),
		)},
	{"IDs that differ in case are different events",
		"a host's IDs may be base64 or nanoids, where case matters: the second event would be lost and reported as stored",
		inTurn(put(numbered("Ab", 1)), put(numbered("aB", 2)), holds("Ab", "aB"))},
	{"events are ordered by time, in whatever order they were appended",
		"a run's window is computed from its events: a cancel that is read after its resume cancels the run again", inTurn(
			put(numbered("b", 3), numbered("d", 1)),
			put(numbered("a", 4), numbered("c", 2)),
			isOrdered("d", "c", "b", "a"),
		)},
	{"events of one microsecond are ordered by ID, byte by byte",
		"every reader, with every store and every locale, must compute the same history from the same events", inTurn(
			put(withinMicrosecond("é", "a", "_", "B", "b", "-", "A", "10", "9")...),
			isOrdered("-", "10", "9", "A", "B", "_", "a", "b", "é"),
		)},
	{"an aggregate without events is empty, and no error",
		"a new run has no events: a watchdog that attaches to it must tell that from a store that fails", holdsAt("unknown")},
	{"aggregates of one ID and different types are kept apart",
		"the host's own session and the watchdog's run may have one ID; reading one must not return the other's events",
		inTurn(put(numbered("run's", 1), ofSession(numbered("session's", 2))), holds("run's"))},
	{"every character of an aggregate ID counts, and none has a special meaning",
		"a pattern, a prefix, a collation or a quote that ends a text would find the cancel of another run, or of a step",
		keptApart("a", "a/b", "a/b/c", "a/", "ab", "b",
			"r1n", "r_n", "r%", "%", "r*", "r?n", "r[1]n", "r.n", "^r", `r\_n`,
			"run", "RUN", "Run", "rün", "run ", " run", "straße", "STRASSE", "\u00e9", "e\u0301", "e",
			"o'brien", "obrien", `"run"`, "`run`", "run;--", `\`, `\\`, "$1", "?1", ":id", "@id",
			"#", "&amp;", "&", "null", "0", "00", "0.0", "1e1", "10",
			"日本語", "🜁🜂", "a\u200db", "\u202ea", "\ufeff", "a\u2028b")},
}

// A flaw makes a valid event invalid.
type flaw struct {
	name  string
	spoil func(*event.Event)
}

var flaws = []flaw{
	{"an empty ID", func(e *event.Event) { e.ID = "" }},
	{"a blank ID", func(e *event.Event) { e.ID = "  " }},
	{"an ID with a line break", func(e *event.Event) { e.ID = "a\nb" }},
	{"an ID with a NUL", func(e *event.Event) { e.ID = "a\x00b" }},
	{"an ID that is not UTF-8", func(e *event.Event) { e.ID = "a\xff" }},
	{"an empty aggregate type", func(e *event.Event) { e.AggregateType = "" }},
	{"an empty aggregate ID", func(e *event.Event) { e.AggregateID = "" }},
	{"an aggregate ID with a control character", func(e *event.Event) { e.AggregateID = runID + "\x1b" }},
	{"an empty event type", func(e *event.Event) { e.Type = "" }},
	{"a consensus ID with a control character", func(e *event.Event) { e.ConsensusID = "\t" }},
	{"a zero timestamp", func(e *event.Event) { e.Timestamp = time.Time{} }},
	{"a timestamp after the year 9999", func(e *event.Event) { e.Timestamp = noon.AddDate(8000, 0, 0) }},
	{"a timestamp before the year 1", func(e *event.Event) { e.Timestamp = noon.AddDate(-2030, 0, 0) }},
	{"no payload", func(e *event.Event) { e.Payload = nil }},
	{"a payload that is broken JSON", func(e *event.Event) { e.Payload = []byte(`{"a":`) }},
	{"a payload that is an array", func(e *event.Event) { e.Payload = []byte(`[1]`) }},
	{"a payload that is null", func(e *event.Event) { e.Payload = []byte(`null`) }},
	{"a payload of two objects", func(e *event.Event) { e.Payload = []byte(`{}{}`) }},
}

var overlong = []flaw{
	{"an ID", func(e *event.Event) { e.ID = strings.Repeat("x", event.MaxID+1) }},
	{"an aggregate type", func(e *event.Event) { e.AggregateType = strings.Repeat("x", event.MaxAggregateType+1) }},
	{"an aggregate ID", func(e *event.Event) { e.AggregateID = strings.Repeat("é", event.MaxAggregateID+1) }},
	{"an event type", func(e *event.Event) { e.Type = strings.Repeat("x", event.MaxType+1) }},
	{"a consensus ID", func(e *event.Event) { e.ConsensusID = strings.Repeat("é", event.MaxConsensusID+1) }},
}

// refusesEach appends an event with each flaw, which must fail, with the wanted error if there is one.
func refusesEach(flaws []flaw, want error) eventStep {
	return inTurn(put(numbered("before", 0)), forEach(flaws, func(f flaw) eventStep {
		return refuses(f.name, want, with(numbered("flawed", 1), f.spoil))
	}))
}

// anotherA has the ID and the time of numbered("a", 1).
var anotherA = with(numbered("a", 1), func(e *event.Event) { e.Payload = []byte(`{"n":"second"}`) })

// withinMicrosecond returns events with these IDs, each some nanoseconds before the one in front of it.
func withinMicrosecond(ids ...string) (events []event.Event) {
	for i, id := range ids {
		events = append(events, with(numbered(id, 1), func(e *event.Event) {
			e.Timestamp = e.Timestamp.Add(time.Duration(len(ids)-i) * 50 * time.Nanosecond)
		}))
	}
	return events
}

// ofSession returns the event in a host's aggregate that has the ID of the run.
func ofSession(e event.Event) event.Event {
	e.AggregateType = "session"
	return e
}

// keptApart appends an event to each aggregate and checks that each has its own event and no other.
func keptApart(aggregates ...string) eventStep {
	named := func(aggregate string) string { return fmt.Sprint(slices.Index(aggregates, aggregate)) }
	return inTurn(
		forEach(aggregates, func(aggregate string) eventStep {
			return put(inAggregate(numbered(named(aggregate), 1), aggregate))
		}),
		forEach(aggregates, func(aggregate string) eventStep { return holdsAt(aggregate, named(aggregate)) }),
	)
}
