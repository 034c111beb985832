package eventtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/contract"
)

// Run checks every rule of [event.Store], each in a subtest. It skips the rules of
// [event.TransactionalStore] and [event.LayerStore] if the store does not implement them. It calls open once per
// rule. open must return an empty store that nothing else uses; Run closes it afterwards if it is an [io.Closer]. Rules
// run one after the other, but some call the store from many goroutines.
func Run(t *testing.T, open func(t *testing.T) event.Store) {
	t.Helper()
	contract.Run(t, eventRules(), open)
}

// Test checks the rules of [Run] without a testing.T. It returns nil, or one error that joins a [*Violation] for each
// broken rule. It leaves out the rules that Run skips.
func Test(open func() (event.Store, error)) error {
	return contract.Test(eventRules(), open, violation)
}

func eventRules() []eventRule {
	return slices.Concat(fieldRules, appendRules, callerRules, selectionRules, transactionRules, layerRules)
}

// RunDurable checks a store that outlives its process, each rule in a subtest: a store that is opened again has the
// appended events, and stores that are open in one place at once share their events. It calls place once per rule.
// place must prepare an empty place, such as a folder, and return a function that opens a store there; RunDurable may
// call that function several times. It closes the stores if they are an [io.Closer]. It skips the rule of
// [event.TransactionalStore] if the store does not implement it, and does not check the rules of [Run].
func RunDurable(t *testing.T, place func(t *testing.T) (open func() (event.Store, error))) {
	t.Helper()
	contract.Run(t, durableRules, place)
}

// TestDurable checks the rules of [RunDurable] without a testing.T. It returns nil, or one error that joins a
// [*Violation] for each broken rule. It leaves out the rule that RunDurable skips.
func TestDurable(place func() (open func() (event.Store, error))) error {
	return contract.Test(durableRules, func() (opener, error) { return place(), nil }, violation)
}

// A Violation reports that a store breaks a rule. [Test] and [TestDurable] return it.
type Violation struct {
	// Rule is the name of the rule, a sentence. [Run] has a subtest of the same name.
	Rule string
	// Why says what goes wrong for a guard or its host if a store breaks the rule.
	Why string
	// Err says what the store did.
	Err error
}

func violation(rule, why string, err error) error { return &Violation{rule, why, err} }

// Error returns the rule, what the store did and why that matters.
func (v *Violation) Error() string {
	return fmt.Sprintf("%s: %v\n\twhy it matters: %s", v.Rule, v.Err, v.Why)
}

// Unwrap returns Err.
func (v *Violation) Unwrap() error { return v.Err }

// An opener opens stores in one place.
type opener = func() (event.Store, error)

var durableRules = []contract.Rule[opener]{
	{"events are stored when the store is opened again",
		"after a crash or a restart only the event store knows that a run was cancelled, and why",
		inTurn(opened(put(numbered("a", 1))), opened(holds("a")))},
	{"an ID stored before the store was opened again is still taken",
		"a restarted process fires the same cancel again: it must find the stored one and not add a second",
		inTurn(opened(put(numbered("a", 1))), opened(inTurn(put(anotherA), keeps(numbered("a", 1)))))},
	{"stores open at once see each other's events",
		"a second process that attaches to a run must see the cancel of the first", openedTwice(func(one, other *eventEnv) {
			put(numbered("a", 1))(one)
			holds("a")(other)
			put(numbered("b", 2))(other)
			holds("a", "b")(one)
		})},
	{"stores open at once keep one event of an ID",
		"two processes that guard one run may fire at the same moment: a window has one cancel event, whoever wins",
		openedTwice(func(one, other *eventEnv) { raceForOneID(mostRounds, one, other) })},
	{"transactions of stores open at once do not overlap",
		"two processes that both find no cancel would both decide one: a lock within each process is not enough",
		openedTwice(func(one, other *eventEnv) {
			contract.Optional[event.TransactionalStore](one)
			_, ok := other.Store.(event.TransactionalStore)
			contract.Require(ok, "one open returned a %T, and another a %T", one.Store, other.Store)
			overlap(one, other)
		})},
}

// opened opens a store, makes the step and closes it.
func opened(use eventStep) step[opener] {
	return func(e *contract.Env[opener]) {
		store, err := e.Store()
		contract.Must(err, "open the store")
		err = contract.Catch(func() { use(&eventEnv{Ctx: e.Ctx, Store: store}) })
		if err := errors.Join(err, contract.Close(store)); err != nil {
			contract.Fail(err)
		}
	}
}

func openedTwice(use func(one, other *eventEnv)) step[opener] {
	return func(e *contract.Env[opener]) {
		opened(func(one *eventEnv) { opened(func(other *eventEnv) { use(one, other) })(e) })(e)
	}
}

// runID is the aggregate ID of the events in checks that are not about aggregates.
const runID = "run-1"

// noon is the time from which numbered counts.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// numbered returns an event of the run, n seconds after noon. All its fields are plain, so that a check depends only on
// the fields that it changes.
func numbered(id string, n int) event.Event {
	return event.Event{
		ID: id, AggregateType: event.AggregateType, AggregateID: runID, Type: event.Cancel,
		Payload: fmt.Appendf(nil, `{"n":%d}`, n), Timestamp: noon.Add(time.Duration(n) * time.Second),
	}
}

func inAggregate(e event.Event, aggregateID string) event.Event {
	e.AggregateID = aggregateID
	return e
}

// with returns an event or another value after a change.
func with[T any](value T, change func(*T)) T {
	change(&value)
	return value
}

func put(events ...event.Event) eventStep {
	return func(e *eventEnv) { contract.Must(e.Store.Append(e.Ctx, copies(events)...), "append %s", list(events)) }
}

// copies returns events for a store, which may change them.
func copies(events []event.Event) []event.Event {
	events = slices.Clone(events)
	for i := range events {
		events[i].Payload = bytes.Clone(events[i].Payload)
	}
	return events
}

// refuses appends events that must fail, with the wanted error if there is one, beside the one event "before".
func refuses(what string, want error, events ...event.Event) eventStep {
	return inTurn(fails(what, want, put(events...)), func(e *eventEnv) {
		in(func() { holds("before")(e) }, "%s: Append returned an error and still wrote", what)
	})
}

// read is a Read of the run that must succeed.
func read(e *eventEnv) []event.Event { return readAt(e, event.AggregateType, runID) }

func readAt(e *eventEnv, aggregateType, aggregateID string) []event.Event {
	events, err := e.Store.Read(e.Ctx, aggregateType, aggregateID)
	contract.Must(err, "read aggregate %q", aggregateID)
	return events
}

// only returns the one event that the aggregate of an event must have.
func only(e *eventEnv, like event.Event) event.Event {
	events := readAt(e, like.AggregateType, like.AggregateID)
	contract.Require(len(events) == 1, "aggregate %q: got events %s, want one", like.AggregateID, list(events))
	return events[0]
}

// keeps checks that the aggregate of the event has only this one, as it was appended.
func keeps(want event.Event) eventStep {
	return func(e *eventEnv) { same(only(e, want), want) }
}

// comesBack appends an event to an empty aggregate and checks that it is read as appended.
func comesBack(e event.Event) eventStep { return inTurn(put(e), keeps(e)) }

// roundTrip appends an event to an empty aggregate and returns what is read.
func roundTrip(e *eventEnv, appended event.Event) event.Event {
	put(appended)(e)
	return only(e, appended)
}

// holds checks that the run has the events with these IDs, each once and in any order.
func holds(want ...string) eventStep { return holdsAt(runID, want...) }

// holdsAt is holds for another aggregate.
func holdsAt(aggregateID string, want ...string) eventStep {
	return func(e *eventEnv) {
		got := slices.Sorted(slices.Values(ids(readAt(e, event.AggregateType, aggregateID))))
		sameNames("events of "+aggregateID, got, slices.Sorted(slices.Values(want)))
	}
}

// isOrdered checks that the run has these events in this order.
func isOrdered(want ...string) eventStep {
	return func(e *eventEnv) { sameNames("events", ids(read(e)), want) }
}

func ids(events []event.Event) []string {
	names := make([]string, len(events))
	for i, e := range events {
		names[i] = e.ID
	}
	return names
}

func list(events []event.Event) string { return contract.Shorten(ids(events)) }

// A step is a part of the check of a rule, or all of it. It may be made of others.
type step[S any] = func(e *contract.Env[S])

type (
	eventRule = contract.Rule[event.Store]
	eventEnv  = contract.Env[event.Store]
	eventStep = step[event.Store]
)

// inTurn makes the steps until one fails.
func inTurn[S any](steps ...step[S]) step[S] {
	return func(e *contract.Env[S]) {
		for _, step := range steps {
			step(e)
		}
	}
}

// forEach makes a step for each value, also after one has failed.
func forEach[S, T any](values []T, of func(T) step[S]) step[S] {
	return func(e *contract.Env[S]) { contract.Each(values, func(value T) { of(value)(e) }) }
}

// fails makes a step that must fail, with the wanted error if there is one.
func fails[S any](what string, want error, step step[S]) step[S] {
	return func(e *contract.Env[S]) { contract.Fails(what, want, func() { step(e) }) }
}

// withDoneContexts makes a step with contexts that are done. It must return the context's error.
func withDoneContexts[S any](step step[S]) step[S] {
	return func(e *contract.Env[S]) { e.WithDoneContexts("a call", step) }
}

// sameNames compares the IDs or other names that a store said with those that it should have said, in their order.
func sameNames(what string, got, want []string) {
	contract.Require(slices.Equal(got, want), "%s: got %s, want %s", what, contract.Shorten(got), contract.Shorten(want))
}

// in runs a part of a check, and says in what if that fails.
func in(check func(), what string, args ...any) { contract.Part(fmt.Sprintf(what, args...), check) }

// same fails if a field of the event that was read differs from the appended one. In the payload it checks only the
// appended keys: whether there are more is a rule of its own.
func same(got, want event.Event) {
	carries(got.Payload, want.Payload)
	for _, e := range []*event.Event{&got, &want} {
		e.Payload, e.Timestamp = nil, e.Timestamp.UTC()
	}
	contract.Require(reflect.DeepEqual(got, want), "event %q was read as\n\t%+v, want\n\t%+v", want.ID, got, want)
}

// allSame fails if the events are not the appended ones, in this order.
func allSame(got, want []event.Event) {
	sameNames("events", ids(got), ids(want))
	for i := range want {
		same(got[i], want[i])
	}
}

// carries fails if a key of want is missing or different in got.
func carries(got, want json.RawMessage) {
	if bytes.Equal(got, want) {
		return
	}
	gotKeys := keys(got)
	for key, value := range keys(want) {
		back, exists := gotKeys[key]
		contract.Require(exists && reflect.DeepEqual(back, value),
			"key %q of the payload is missing or changed: read %s, appended %s", key, brief(got), brief(want))
	}
}

// keys decodes a payload.
func keys(payload json.RawMessage) map[string]any {
	value, err := contract.Decode(payload)
	object, is := value.(map[string]any)
	contract.Require(is, "payload was read as %s, not as an object: %w", brief(payload), err)
	return object
}

// brief shortens a large payload for an error.
func brief(payload json.RawMessage) string {
	const limit = 300
	if len(payload) <= limit {
		return string(payload)
	}
	return fmt.Sprintf("%s… (%d bytes)", payload[:limit], len(payload))
}
