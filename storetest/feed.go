package storetest

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var feedRules = []eventRule{
	{"layers are the aggregates whose events name exactly this parent, each once and sorted",
		"a page that shows a run with another run's layers, or without its own, explains the wrong stop", inTurn(
			put(family()...),
			hasLayers("run", "B", "a", "run/step"), hasLayers("RUN", "folded"), hasLayers(`"quo'`, "quoted"),
			hasLayers("r%", "pattern"), hasLayers("5"), hasLayers("ru"), hasLayers("none"),
		)},
	{"a query for layers with a done context returns the context's error",
		"what looks like a run without layers is worse than the error", withDoneContexts(hasLayers("run"))},
	{"a follower of all runs is told of each event that is stored from then on, once",
		"a page that misses an event shows a run that has ended as running; one that is told twice shows two stops",
		inTurn(put(numbered("before", 0)), following("", func(e *eventEnv, told tellings) {
			put(numbered("before", 1), numbered("a", 2), inAggregate(numbered("b", 1), "run-2"))(e)
			put(numbered("a", 3))(e)
			receives(e, told, numbered("a", 2), inAggregate(numbered("b", 1), "run-2"))
			put(inAggregate(numbered("c", 4), "run-3"))(e)
			receives(e, told, inAggregate(numbered("c", 4), "run-3"))
		}))},
	{"a follower is told of what a transaction stores",
		"a trip is stored so: a page would show every event but the stop", following("", func(e *eventEnv, told tellings) {
			transactsInvalid(nil)(e)
			transacts(always(numbered("a", 1)), always(numbered("a", 2), numbered("b", 3)))(e)
			receives(e, told, numbered("a", 1), numbered("b", 3))
		})},
	{"a follower of one run is told of no other, and of nothing of the host's own",
		"the page of a run would show what happened to another one", following(runID, func(e *eventEnv, told tellings) {
			put(inAggregate(numbered("other", 1), "run-2"), inAggregate(numbered("layer", 2), runID+"/a"),
				inAggregate(numbered("folded", 3), "RUN-1"), ofSession(numbered("host", 4)), numbered("own", 5))(e)
			receives(e, told, numbered("own", 5))
		})},
	{"a follower may use the store while it is told",
		"a page reads the run of each event: with a lock or the only connection held it waits for itself", usesStoreWhenTold},
	{"following ends with its context and leaves no goroutine",
		"a page that is closed must not cost anything any more", inTurn(endsClean(""), endsClean(runID))},
}

func hasLayers(parent string, want ...string) eventStep {
	return func(e *eventEnv) {
		layers, err := contract.Optional[watchdog.FeedStore](e).Layers(e.Ctx, parent)
		contract.Must(err, "layers of %q", parent)
		sameNames(fmt.Sprintf("layers of %q", parent), layers, want)
	}
}

// family returns events of layers, and events whose payloads look like those of layers.
func family() (events []watchdog.Event) {
	for i, one := range []struct{ aggregate, payload string }{
		{"run/step", `{"reason":"x","parent":"run"}`},
		{"a", `{"parent":"run"}`},
		{"a", `{"parent":"run","n":2}`},
		{"a", `{"n":3}`},
		{"B", `{"n":1}`},
		{"B", `{"parent":"run"}`},
		{"folded", `{"parent":"RUN"}`},
		{"quoted", `{"parent":"\"quo'"}`},
		{"pattern", `{"parent":"r%"}`},
		{"longer", `{"parent":"run/step"}`},
		{"spaced", `{"parent":"run "}`},
		{"nested", `{"layer":{"parent":"run"}}`},
		{"listed", `{"parent":["run"]}`},
		{"number", `{"parent":5}`},
		{"null", `{"parent":null}`},
		{"capital", `{"Parent":"run"}`},
		{"hosts", `{"parent":"run"}`},
	} {
		e := inAggregate(numbered(fmt.Sprint("event-", i), i), one.aggregate)
		e.Payload = []byte(one.payload)
		if one.aggregate == "hosts" {
			e = ofSession(e)
		}
		events = append(events, e)
	}
	return events
}

type tellings = <-chan watchdog.Event

// following makes a check while the store is followed.
func following(aggregateID string, check func(e *eventEnv, told tellings)) eventStep {
	return func(e *eventEnv) {
		told := make(chan watchdog.Event, 64)
		tell := func(event watchdog.Event) {
			select {
			case told <- event:
			default: // a store that tells so much must not hang, too
			}
		}
		_ = follow(e, aggregateID, tell, func() { check(e, told) }) // another rule looks at the ending
	}
}

// follow runs a check while the store is followed, and returns what Follow returned.
func follow(e *eventEnv, aggregateID string, told func(watchdog.Event), check func()) (ending error) {
	feed := contract.Optional[watchdog.FeedStore](e)
	return e.While(func(ctx context.Context, ready func()) error {
		return feed.Follow(ctx, aggregateID, ready, told)
	}, check)
}

// receives checks that exactly these events are told, in any order. It does not wait for more.
func receives(e *eventEnv, told tellings, want ...watchdog.Event) {
	for missing := slices.Clone(want); len(missing) > 0; {
		select {
		case event := <-told:
			at := slices.Index(ids(missing), event.ID)
			contract.Require(at >= 0, "the follower was told of event %q, want one of %s", event.ID, list(missing))
			in(func() { same(event, missing[at]) }, "the follower was told")
			missing = slices.Delete(missing, at, at+1)
		case <-e.Ctx.Done():
			contract.Require(false, "the follower was not told of events %s", list(missing))
		}
	}
}

func usesStoreWhenTold(e *eventEnv) {
	called := make(chan error, 1)
	_ = follow(e, "", func(event watchdog.Event) {
		if event.ID == "a" {
			called <- contract.Catch(func() { inTurn(put(numbered("b", 2)), holds("a", "b"))(e) })
		}
	}, func() {
		put(numbered("a", 1))(e)
		select {
		case err := <-called:
			contract.Must(err, "in the follower")
		case <-e.Ctx.Done():
			contract.Require(false, "the follower was not told, or its call did not return")
		}
	})
}

// Goroutines inherit the labels of the one that starts them. So a check finds those that Follow started, while other
// tests run.
const followLabel = "storetest-follow"

var followings atomic.Int64

// endsClean ends to follow while an event is told, and checks what Follow returns, and that no goroutine is left.
func endsClean(aggregateID string) eventStep {
	return func(e *eventEnv) {
		label := strconv.FormatInt(followings.Add(1), 10)
		ctx, cancel := context.WithCancel(pprof.WithLabels(e.Ctx, pprof.Labels(followLabel, label)))
		defer cancel()
		labelled := &eventEnv{Ctx: ctx, Store: e.Store}
		ending := follow(labelled, aggregateID, func(watchdog.Event) { cancel() }, func() {
			put(numbered("for "+label, 1))(e)
			<-ctx.Done()
		})
		contract.Require(errors.Is(ending, context.Canceled), "following returned %w, not its context's error", ending)
		leavesNothing(e, label)
	}
}

// leftBehind limits the wait for the goroutines that Follow started, which may need a moment to end.
const leftBehind = 5 * time.Second

// leavesNothing checks that no goroutine with the label is left.
func leavesNothing(e *eventEnv, label string) {
	mark := strconv.Quote(followLabel) + ":" + strconv.Quote(label)
	for began, pause := time.Now(), time.Millisecond; ; pause *= 2 {
		var goroutines strings.Builder
		contract.Must(pprof.Lookup("goroutine").WriteTo(&goroutines, 1), "list goroutines")
		if !strings.Contains(goroutines.String(), mark) {
			return
		}
		contract.Require(time.Since(began) <= leftBehind && e.Ctx.Err() == nil,
			"a goroutine that Follow started is still there after Follow has returned")
		time.Sleep(pause)
	}
}
