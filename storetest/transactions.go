package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

var transactionRules = []eventRule{
	{"an exchange decides with what it selects, and what it decides is stored",
		"a watchdog decides from the stored events whether its window has ended already",
		inTurn(
			put(numbered("old", 0), numbered("b", 2), numbered("a", 1)),
			decidesFromFirst,
			holds("old", "a", "b", "c", "d"),
		)},
	{"exchanges are carried out in their order",
		"a run and its layers are recorded together: the second decision must see what the first one stored",
		inTurn(transacts(counting, counting), holds("count-0", "count-1"))},
	{"a transaction with an invalid event in a later exchange stores nothing, and returns ErrInvalid",
		"a cancel and the cancels of the layers are one transaction: with half of it a layer would run on",
		inTurn(
			put(numbered("before", 0)),
			transactsInvalid(watchdog.ErrInvalid),
			holds("before"),
			put(numbered("first", 1)), // its ID is free
			holds("before", "first"),
		)},
	{"Kept is what is stored under the IDs that Decide returned",
		"the process that comes second must report the stop that the first one stored, not its own",
		inTurn(put(numbered("taken", 1), inAggregate(numbered("elsewhere", 2), "run-2")), keptIsStored)},
	{"transactions of one aggregate do not overlap",
		"two processes that both find no cancel would both decide one",
		func(ctx context.Context, store watchdog.EventStore) error {
			const deciders, each = 8, 20
			err := contract.AtOnce(deciders, func(int) error {
				return inTurn(slices.Repeat([]step{transacts(counting)}, each)...)(ctx, store)
			})
			return errors.Join(err, holds(numberedTo(deciders*each)...)(ctx, store))
		}},
	{"a transaction with a done context stores nothing and returns the context's error",
		"a watchdog waits only for its record timeout: an event that was reported as not stored must not appear later",
		inTurn(
			put(numbered("before", 0)),
			withDoneContexts(transacts(always(numbered("late", 1))), holds("before")),
		)},
	{"a context that ends during a transaction leaves all of it or nothing",
		"a run whose layers are cancelled in part has no one reason",
		endsWhileTransacting},
}

// A decision is the Decide of an exchange.
type decision = func(selected []watchdog.Event) []watchdog.Event

// always decides the same whatever is stored.
func always(events ...watchdog.Event) decision {
	return func([]watchdog.Event) []watchdog.Event { return copies(events) }
}

// counting decides an event named after the number of events before it.
func counting(selected []watchdog.Event) []watchdog.Event {
	n := len(selected)
	return []watchdog.Event{numbered(fmt.Sprint("count-", n), n)}
}

// exchange returns an exchange with all events of the run.
func exchange(decide decision) *watchdog.Exchange {
	return &watchdog.Exchange{Selection: ofRun(watchdog.Selection{Since: noon}), Decide: decide}
}

// transacts carries out exchanges with all events of the run, in one transaction.
func transacts(decisions ...decision) step {
	return func(ctx context.Context, store watchdog.EventStore) error {
		exchanges := make([]*watchdog.Exchange, len(decisions))
		for i, decide := range decisions {
			exchanges[i] = exchange(decide)
		}
		return transact(ctx, store, exchanges...)
	}
}

func transact(ctx context.Context, store watchdog.EventStore, exchanges ...*watchdog.Exchange) error {
	if err := store.(watchdog.TransactionalStore).Transact(ctx, exchanges...); err != nil {
		return fmt.Errorf("transact: %w", err)
	}
	return nil
}

// decidesFromFirst has an exchange select from the first second on.
func decidesFromFirst(ctx context.Context, store watchdog.EventStore) error {
	var saw []string
	x := exchange(func(selected []watchdog.Event) []watchdog.Event {
		saw = ids(selected)
		return []watchdog.Event{numbered("d", 4), numbered("c", 3)}
	})
	x.Since = noon.Add(time.Second)
	if err := transact(ctx, store, x); err != nil {
		return err
	}
	return sameNames("decided with events", saw, []string{"a", "b"})
}

// transactsInvalid decides an invalid event in the second exchange.
func transactsInvalid(want error) step {
	invalid := transacts(always(numbered("first", 1)), always(numbered("second", 2), numbered("", 3)))
	return fails("a transaction with an invalid event", want, invalid)
}

func keptIsStored(ctx context.Context, store watchdog.EventStore) error {
	fresh := numbered("fresh", 3)
	fresh.Timestamp = fresh.Timestamp.Add(999) // nanoseconds, which no store keeps
	x := exchange(always(fresh, numbered("elsewhere", 8), numbered("taken", 9), numbered("fresh", 10)))
	if err := transact(ctx, store, x); err != nil {
		return err
	}
	want := []watchdog.Event{
		numbered("fresh", 3), inAggregate(numbered("elsewhere", 2), "run-2"), numbered("taken", 1), numbered("fresh", 3),
	}
	if err := differFrom(x.Kept, want); err != nil {
		return fmt.Errorf("in Kept: %w", err)
	}
	return nil
}

// endsWhileTransacting ends the context of a transaction while it decides.
func endsWhileTransacting(ctx context.Context, store watchdog.EventStore) error {
	ending, end := context.WithCancel(ctx)
	defer end()
	err := transacts(always(numbered("first", 1)), func([]watchdog.Event) []watchdog.Event {
		end()
		return []watchdog.Event{numbered("second", 2)}
	})(ending, store)
	if err := put(numbered("after", 3))(ctx, store); err != nil { // comes after what is still being written
		return err
	}
	if err != nil && holds("after")(ctx, store) == nil {
		return nil
	}
	return holds("first", "second", "after")(ctx, store)
}

// overlap begins a transaction in the second store while one in the first decides, several times. It checks that each
// decided with what the one before had stored.
func overlap(ctx context.Context, one, other watchdog.EventStore) error {
	const rounds = 5
	for round := range rounds {
		if err := overlapOnce(ctx, one, other); err != nil {
			return err
		}
		if err := holds(numberedTo(2*round+2)...)(ctx, one); err != nil {
			return err
		}
	}
	return nil
}

// overlapOnce has the first transaction wait until the second one decides. A store that has the second wait for the
// first makes that wait in vain, for a tenth of a second. A store may have an exchange decide more than once.
func overlapOnce(ctx context.Context, one, other watchdog.EventStore) error {
	const patience = 100 * time.Millisecond
	deciding, ended := make(chan struct{}), make(chan error, 1)
	reached := sync.OnceFunc(func() { close(deciding) })
	begin := sync.OnceFunc(func() {
		go func() {
			ended <- transacts(func(selected []watchdog.Event) []watchdog.Event {
				reached()
				return counting(selected)
			})(ctx, other)
		}()
	})
	err := transacts(func(selected []watchdog.Event) []watchdog.Event {
		begin()
		select {
		case <-deciding:
		case <-time.After(patience):
		}
		return counting(selected)
	})(ctx, one)
	begin() // if the first failed before it decided
	return errors.Join(err, <-ended)
}
