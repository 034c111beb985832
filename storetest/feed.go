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
)

var layerRules = []eventRule{
	{"layers are the aggregates whose events name exactly this parent, each once and sorted",
		"a page that shows a run with another run's layers, or without its own, explains the wrong stop",
		inTurn(
			put(family()...),
			hasLayers("run", "B", "a", "run/step"), hasLayers("RUN", "folded"), hasLayers(`"quo'`, "quoted"),
			hasLayers("r%", "pattern"), hasLayers("5"), hasLayers("ru"), hasLayers("none"),
		)},
	{"a query for layers with a done context returns the context's error",
		"the caller no longer waits: an answer that looks like a run without layers is worse than the error",
		withDoneContexts(hasLayers("run"))},
}

func hasLayers(parent string, want ...string) step {
	return func(ctx context.Context, store watchdog.EventStore) error {
		layers, err := store.(watchdog.FeedStore).Layers(ctx, parent)
		if err != nil {
			return fmt.Errorf("layers of %q: %w", parent, err)
		}
		return sameNames(fmt.Sprintf("layers of %q", parent), layers, want)
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

var followRules = []eventRule{
	{"a follower of all runs is told of each event that is stored from then on, once",
		"a page that misses an event shows a run that has ended as running; one that is told twice shows two stops",
		inTurn(put(numbered("before", 0)), following("", func(told tellings) step {
			return inTurn(
				put(numbered("before", 1), numbered("a", 2), inAggregate(numbered("b", 1), "run-2")),
				put(numbered("a", 3)),
				receives(told, numbered("a", 2), inAggregate(numbered("b", 1), "run-2")),
				put(inAggregate(numbered("c", 4), "run-3")),
				receives(told, inAggregate(numbered("c", 4), "run-3")),
			)
		}))},
	{"a follower is told of what a transaction stores",
		"a trip is stored in a transaction: a page would show every event but the stop",
		ifIs[watchdog.TransactionalStore](following("", func(told tellings) step {
			return inTurn(
				transactsInvalid(nil),
				transacts(always(numbered("a", 1)), always(numbered("a", 2), numbered("b", 3))),
				receives(told, numbered("a", 1), numbered("b", 3)),
			)
		}))},
	{"a follower of one run is told of no other",
		"the page of a run would show what happened to another one",
		following(runID, func(told tellings) step {
			return inTurn(
				put(inAggregate(numbered("other", 1), "run-2"), inAggregate(numbered("layer", 2), runID+"/a"),
					inAggregate(numbered("folded", 3), "RUN-1"), numbered("own", 4)),
				receives(told, numbered("own", 4)),
			)
		})},
	{"a follower is told of runs only",
		"the host's own aggregates in the same table are nobody's run",
		following("", func(told tellings) step {
			return inTurn(put(ofSession(numbered("host", 1)), numbered("run", 2)), receives(told, numbered("run", 2)))
		})},
	{"a follower may use the store while it is told",
		"a page reads the run of each event: with a lock or the only connection held, it would wait for itself",
		usesStoreWhenTold},
	{"following ends with its context and leaves no goroutine",
		"a page that is closed must not cost anything any more",
		inTurn(endsClean(""), endsClean(runID))},
}

type tellings = <-chan watchdog.Event

// following makes steps while the store is followed.
func following(aggregateID string, steps func(told tellings) step) step {
	return func(ctx context.Context, store watchdog.EventStore) error {
		told := make(chan watchdog.Event, 64)
		tell := func(e watchdog.Event) {
			select {
			case told <- e:
			default: // a store that tells so much must not hang, too
			}
		}
		_, err := follow(ctx, store, aggregateID, tell, func() error { return steps(told)(ctx, store) })
		return err // another rule looks at the ending
	}
}

// follow runs a check while the store is followed, in a goroutine with the context's labels. It returns what Follow
// returned, and the error of the check, or why there was none.
func follow(
	ctx context.Context, store watchdog.EventStore, aggregateID string, told func(watchdog.Event), check func() error,
) (ending, err error) {
	followCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() {
		pprof.SetGoroutineLabels(followCtx)
		ended <- store.(watchdog.FeedStore).Follow(followCtx, aggregateID, func() { close(ready) }, told)
	}()
	select {
	case <-ready:
		err = check()
	case ending = <-ended:
		return ending, errors.Join(errors.New("following ended before it was ready"), ending)
	case <-ctx.Done():
		err = errors.New("following never became ready")
	}
	cancel()
	return <-ended, err
}

// receives checks that exactly these events are told, in any order. It does not wait for more.
func receives(told tellings, want ...watchdog.Event) step {
	return func(ctx context.Context, _ watchdog.EventStore) error {
		for missing := slices.Clone(want); len(missing) > 0; {
			select {
			case e := <-told:
				at := slices.IndexFunc(missing, func(w watchdog.Event) bool { return w.ID == e.ID })
				if at < 0 {
					return fmt.Errorf("the follower was told of event %q, want one of %s", e.ID, list(missing))
				}
				if err := differs(e, missing[at]); err != nil {
					return fmt.Errorf("the follower was told: %w", err)
				}
				missing = slices.Delete(missing, at, at+1)
			case <-ctx.Done():
				return fmt.Errorf("the follower was not told of events %s", list(missing))
			}
		}
		return nil
	}
}

func usesStoreWhenTold(ctx context.Context, store watchdog.EventStore) error {
	called := make(chan error, 1)
	_, err := follow(ctx, store, "", func(e watchdog.Event) {
		if e.ID == "a" {
			called <- inTurn(put(numbered("b", 2)), holds("a", "b"))(ctx, store)
		}
	}, func() error {
		if err := put(numbered("a", 1))(ctx, store); err != nil {
			return err
		}
		select {
		case err := <-called:
			return err
		case <-ctx.Done():
			return errors.New("the follower was not told, or its call did not return")
		}
	})
	return err
}

// Goroutines inherit the labels of the one that starts them. So a check finds those that Follow started, while other
// tests run.
const followLabel = "storetest-follow"

var followings atomic.Int64

// endsClean follows until an event is told, and ends that from within. It checks what Follow returns then, and that no
// goroutine is left behind.
func endsClean(aggregateID string) step {
	return func(ctx context.Context, store watchdog.EventStore) error {
		label := strconv.FormatInt(followings.Add(1), 10)
		labelled, cancel := context.WithCancel(pprof.WithLabels(ctx, pprof.Labels(followLabel, label)))
		defer cancel()
		ending, err := follow(labelled, store, aggregateID, func(watchdog.Event) { cancel() }, func() error {
			err := put(numbered("for "+label, 1))(ctx, store)
			if err == nil {
				<-labelled.Done()
			}
			return err
		})
		if err != nil {
			return err
		}
		if !errors.Is(ending, context.Canceled) {
			return errors.Join(errors.New("following did not return its context's error"), ending)
		}
		return leavesNothing(ctx, label)
	}
}

// leftBehind limits the wait for the goroutines that Follow started, which may need a moment to end.
const leftBehind = 5 * time.Second

// leavesNothing checks that no goroutine with the label is left.
func leavesNothing(ctx context.Context, label string) error {
	mark := strconv.Quote(followLabel) + ":" + strconv.Quote(label)
	for began, pause := time.Now(), time.Millisecond; ; pause *= 2 {
		var goroutines strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&goroutines, 1); err != nil {
			return err
		}
		if !strings.Contains(goroutines.String(), mark) {
			return nil
		}
		if time.Since(began) > leftBehind || ctx.Err() != nil {
			return errors.New("a goroutine that Follow started is still there after Follow has returned")
		}
		time.Sleep(pause)
	}
}
