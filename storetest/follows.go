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

var followRules = []rule{
	{
		"a follower of all runs is told of each event that is stored from then on, once",
		"a page that misses an event shows a run that has ended as running; one that is told twice shows two stops",
		feeding(func(ctx context.Context, store watchdog.FeedStore) error {
			if err := put(ctx, store, numbered("before", 0)); err != nil {
				return err
			}
			return following(ctx, store, "", func(told <-chan watchdog.Event) error {
				return errors.Join(
					put(ctx, store, numbered("before", 1), numbered("a", 2), inAggregate(numbered("b", 1), "run-2")),
					put(ctx, store, numbered("a", 3)),
					receives(ctx, told, numbered("a", 2), inAggregate(numbered("b", 1), "run-2")),
					put(ctx, store, inAggregate(numbered("c", 4), "run-3")),
					receives(ctx, told, inAggregate(numbered("c", 4), "run-3")),
				)
			})
		}),
	},
	{
		"a follower is told of what a transaction stores",
		"a trip is stored in a transaction: a page would show every event but the stop",
		feeding(func(ctx context.Context, store watchdog.FeedStore) error {
			able, ok := store.(watchdog.TransactionalStore)
			if !ok {
				return fmt.Errorf("%w: the store is not a watchdog.TransactionalStore", errOptional)
			}
			return following(ctx, store, "", func(told <-chan watchdog.Event) error {
				invalid := able.Transact(ctx, deciding(numbered("undone", 1)), deciding(numbered("", 2)))
				if invalid == nil {
					return errors.New("a transaction with an invalid event returned nil")
				}
				return errors.Join(
					able.Transact(ctx, deciding(numbered("a", 1)), deciding(numbered("a", 2), numbered("b", 3))),
					receives(ctx, told, numbered("a", 1), numbered("b", 3)),
				)
			})
		}),
	},
	{
		"a follower of one run is told of no other",
		"the page of a run would show what happened to another one",
		feeding(func(ctx context.Context, store watchdog.FeedStore) error {
			return following(ctx, store, runID, func(told <-chan watchdog.Event) error {
				return errors.Join(
					put(ctx, store, inAggregate(numbered("other", 1), "run-2"), inAggregate(numbered("layer", 2), runID+"/a"),
						inAggregate(numbered("folded", 3), "RUN-1"), numbered("own", 4)),
					receives(ctx, told, numbered("own", 4)),
				)
			})
		}),
	},
	{
		"a follower is told of runs only",
		"the host's own aggregates in the same table are nobody's run",
		feeding(func(ctx context.Context, store watchdog.FeedStore) error {
			host := numbered("host", 1)
			host.AggregateType = "session"
			return following(ctx, store, "", func(told <-chan watchdog.Event) error {
				return errors.Join(put(ctx, store, host, numbered("run", 2)), receives(ctx, told, numbered("run", 2)))
			})
		}),
	},
	{
		"a follower may use the store while it is told",
		"a page reads the run of each event: with a lock or the only connection held, it would wait for itself",
		feeding(func(ctx context.Context, store watchdog.FeedStore) error {
			called := make(chan error, 1)
			return followingWith(ctx, store, "", func(e watchdog.Event) {
				if e.ID == "a" {
					called <- errors.Join(put(ctx, store, numbered("b", 2)), holds(ctx, store, "a", "b"))
				}
			}, func() error {
				if err := put(ctx, store, numbered("a", 1)); err != nil {
					return err
				}
				select {
				case err := <-called:
					return err
				case <-ctx.Done():
					return errors.New("the follower was not told, or its call did not return")
				}
			})
		}),
	},
	{
		"following ends with its context and leaves no goroutine",
		"a page that is closed must not cost anything any more",
		feeding(endsClean),
	},
}

// following runs a check while the store is followed, and then ends that.
func following(
	ctx context.Context, store watchdog.FeedStore, aggregateID string, check func(told <-chan watchdog.Event) error,
) error {
	told := make(chan watchdog.Event, 64)
	tell := func(e watchdog.Event) {
		select {
		case told <- e:
		default: // a store that tells so much must not hang, too
		}
	}
	return followingWith(ctx, store, aggregateID, tell, func() error { return check(told) })
}

// followingWith returns the error of the check, or why following ended before.
func followingWith(
	ctx context.Context, store watchdog.FeedStore, aggregateID string, tell func(watchdog.Event), check func() error,
) error {
	followCtx, cancel := context.WithCancel(ctx)
	ended, ready := make(chan struct{}), make(chan struct{})
	var ending error // another rule looks at it
	go func() {
		defer close(ended)
		ending = store.Follow(followCtx, aggregateID, func() { close(ready) }, tell)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	select {
	case <-ready:
		return check()
	case <-ended:
		return errors.Join(errors.New("following ended before it was ready"), ending)
	case <-ctx.Done():
		return errors.New("following never became ready")
	}
}

// receives checks that exactly these events are told, in any order. It does not wait for more.
func receives(ctx context.Context, told <-chan watchdog.Event, want ...watchdog.Event) error {
	for len(want) > 0 {
		select {
		case e := <-told:
			at := slices.IndexFunc(want, func(w watchdog.Event) bool { return w.ID == e.ID })
			if at < 0 {
				return fmt.Errorf("the follower was told of event %q, want one of %s", e.ID, list(want))
			}
			if err := differs(e, want[at]); err != nil {
				return fmt.Errorf("the follower was told: %w", err)
			}
			want = slices.Delete(want, at, at+1)
		case <-ctx.Done():
			return fmt.Errorf("the follower was not told of events %s", list(want))
		}
	}
	return nil
}

// endsClean follows twice, all runs and one, and looks for goroutines that following left behind.
func endsClean(ctx context.Context, store watchdog.FeedStore) error {
	for _, aggregateID := range []string{"", runID} {
		label := strconv.FormatInt(followings.Add(1), 10)
		if err := followBriefly(ctx, store, aggregateID, label); err != nil {
			return err
		}
		if err := leavesNothing(ctx, label); err != nil {
			return err
		}
	}
	return nil
}

// followBriefly follows, in a goroutine with the label, until an event is told. It checks what Follow returns then.
func followBriefly(ctx context.Context, store watchdog.FeedStore, aggregateID, label string) error {
	followCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended, ready := make(chan error, 1), make(chan struct{})
	go pprof.Do(followCtx, pprof.Labels(followLabel, label), func(ctx context.Context) {
		ended <- store.Follow(ctx, aggregateID, func() { close(ready) }, func(watchdog.Event) { cancel() })
	})
	select {
	case <-ready:
	case err := <-ended:
		return errors.Join(errors.New("following ended before it was ready"), err)
	}
	if err := put(ctx, store, numbered("for "+label, 1)); err != nil {
		return err
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		return errors.Join(errors.New("following did not return its context's error"), err)
	}
	return nil
}

// Goroutines inherit the labels of the one that starts them. So a check finds those that Follow started, while other
// tests run.
const followLabel = "storetest-follow"

var followings atomic.Int64

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
