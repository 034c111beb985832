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

var transactionRules = []rule{
	{
		"an exchange decides with what it selects, and what it decides is stored",
		"a watchdog decides from the stored events whether its window has ended already",
		transacting(func(ctx context.Context, store watchdog.TransactionalStore) error {
			if err := put(ctx, store, numbered("old", 0), numbered("b", 2), numbered("a", 1)); err != nil {
				return err
			}
			var saw []string
			x := exchange(func(selected []watchdog.Event) []watchdog.Event {
				saw = ids(selected)
				return []watchdog.Event{numbered("d", 4), numbered("c", 3)}
			})
			x.Since = numbered("", 1).Timestamp
			if err := store.Transact(ctx, x); err != nil {
				return fmt.Errorf("transact: %w", err)
			}
			if !slices.Equal(saw, []string{"a", "b"}) {
				return fmt.Errorf("the exchange decided with events %q, want a and b", saw)
			}
			return holds(ctx, store, "old", "a", "b", "c", "d")
		}),
	},
	{
		"exchanges are carried out in their order",
		"a run and its layers are recorded together: the second decision must see what the first one stored",
		transacting(func(ctx context.Context, store watchdog.TransactionalStore) error {
			first, second := countingExchange(), countingExchange()
			if err := store.Transact(ctx, first, second); err != nil {
				return fmt.Errorf("transact: %w", err)
			}
			return holds(ctx, store, "count-0", "count-1")
		}),
	},
	{
		"a transaction with an invalid event in a later exchange stores nothing, and returns ErrInvalid",
		"a cancel and the cancels of the layers are one transaction: with half of it a layer would run on",
		transacting(func(ctx context.Context, store watchdog.TransactionalStore) error {
			if err := put(ctx, store, numbered("before", 0)); err != nil {
				return err
			}
			err := store.Transact(ctx, deciding(numbered("first", 1)), deciding(numbered("second", 2), numbered("", 3)))
			if !errors.Is(err, watchdog.ErrInvalid) {
				return errors.Join(errors.New("the transaction did not return ErrInvalid"), err)
			}
			return errors.Join(
				holds(ctx, store, "before"),
				put(ctx, store, numbered("first", 1)), // its ID is free
				holds(ctx, store, "before", "first"),
			)
		}),
	},
	{
		"Kept is what is stored under the IDs that Decide returned",
		"the process that comes second must report the stop that the first one stored, not its own",
		transacting(func(ctx context.Context, store watchdog.TransactionalStore) error {
			mine, there := numbered("taken", 1), inAggregate(numbered("elsewhere", 2), "run-2")
			if err := put(ctx, store, mine, there); err != nil {
				return err
			}
			fresh := numbered("fresh", 3)
			fresh.Timestamp = fresh.Timestamp.Add(999) // nanoseconds, which no store keeps
			x := deciding(fresh, numbered("elsewhere", 8), numbered("taken", 9), numbered("fresh", 10))
			if err := store.Transact(ctx, x); err != nil {
				return fmt.Errorf("transact: %w", err)
			}
			return keptAre(x, numbered("fresh", 3), there, mine, numbered("fresh", 3))
		}),
	},
	{
		"transactions of one aggregate do not overlap",
		"two processes that both find no cancel would both decide one",
		transacting(func(ctx context.Context, store watchdog.TransactionalStore) error {
			const deciders, each = 8, 20
			err := contract.AtOnce(deciders, func(int) error {
				for range each {
					if err := store.Transact(ctx, countingExchange()); err != nil {
						return fmt.Errorf("transact: %w", err)
					}
				}
				return nil
			})
			want := make([]string, deciders*each)
			for i := range want {
				want[i] = fmt.Sprint("count-", i)
			}
			return errors.Join(err, holds(ctx, store, want...))
		}),
	},
	{
		"a transaction with a done context stores nothing and returns the context's error",
		"a watchdog waits only for its record timeout: an event that was reported as not stored must not appear later",
		transacting(func(ctx context.Context, store watchdog.TransactionalStore) error {
			if err := put(ctx, store, numbered("before", 0)); err != nil {
				return err
			}
			return contract.WithDoneContexts(ctx, func(done context.Context) error {
				err := store.Transact(done, deciding(numbered("late", 1)))
				return errors.Join(wrapsContextError(done, "Transact", err), holds(ctx, store, "before"))
			})
		}),
	},
	{
		"a context that ends during a transaction leaves all of it or nothing",
		"a run whose layers are cancelled in part has no one reason",
		transacting(func(ctx context.Context, store watchdog.TransactionalStore) error {
			ending, end := context.WithCancel(ctx)
			defer end()
			second := exchange(func([]watchdog.Event) []watchdog.Event {
				end()
				return []watchdog.Event{numbered("second", 2)}
			})
			err := store.Transact(ending, deciding(numbered("first", 1)), second)
			if err := put(ctx, store, numbered("after", 3)); err != nil { // comes after what is still being written
				return err
			}
			if err == nil {
				return holds(ctx, store, "first", "second", "after")
			}
			if nothing := holds(ctx, store, "after"); nothing != nil {
				return holds(ctx, store, "first", "second", "after")
			}
			return nil
		}),
	},
}

// exchange returns an exchange with all events of the run.
func exchange(decide func(selected []watchdog.Event) []watchdog.Event) *watchdog.Exchange {
	return &watchdog.Exchange{Selection: ofRun(watchdog.Selection{Since: noon}), Decide: decide}
}

// deciding returns an exchange that decides the same whatever is stored.
func deciding(events ...watchdog.Event) *watchdog.Exchange {
	return exchange(func([]watchdog.Event) []watchdog.Event { return events })
}

// countingExchange returns an exchange that appends an event named after the number of events before it.
func countingExchange() *watchdog.Exchange {
	return exchange(func(selected []watchdog.Event) []watchdog.Event {
		n := len(selected)
		return []watchdog.Event{numbered(fmt.Sprint("count-", n), n)}
	})
}

// overlap begins a transaction in the second store while one in the first decides, several times. It checks that each
// decided with what the one before had stored.
func overlap(ctx context.Context, one, other watchdog.TransactionalStore) error {
	const rounds = 5
	var want []string
	for range rounds {
		if err := overlapOnce(ctx, one, other); err != nil {
			return fmt.Errorf("transact: %w", err)
		}
		want = append(want, fmt.Sprint("count-", len(want)), fmt.Sprint("count-", len(want)+1))
		if err := holds(ctx, one, slices.Clone(want)...); err != nil {
			return err
		}
	}
	return nil
}

// overlapOnce has the first transaction wait until the second one decides. A store that has the second wait for the
// first makes that wait in vain, for a tenth of a second.
func overlapOnce(ctx context.Context, one, other watchdog.TransactionalStore) error {
	const patience = 100 * time.Millisecond
	first, second := countingExchange(), countingExchange()
	deciding, ended := make(chan struct{}), make(chan error, 1)
	reached := sync.OnceFunc(func() { close(deciding) })
	before(second, reached)
	begin := sync.OnceFunc(func() {
		go func() { ended <- other.Transact(ctx, second) }()
	})
	before(first, func() {
		begin()
		select {
		case <-deciding:
		case <-time.After(patience):
		}
	})
	err := one.Transact(ctx, first)
	begin() // if the first failed before it decided
	return errors.Join(err, <-ended)
}

// before makes an exchange do something before it decides. A store may have it decide more than once.
func before(x *watchdog.Exchange, do func()) {
	decide := x.Decide
	x.Decide = func(selected []watchdog.Event) []watchdog.Event {
		do()
		return decide(selected)
	}
}

func keptAre(x *watchdog.Exchange, want ...watchdog.Event) error {
	if len(x.Kept) != len(want) {
		return fmt.Errorf("got the events %s in Kept, want %s", list(x.Kept), list(want))
	}
	for i := range want {
		if err := differs(x.Kept[i], want[i]); err != nil {
			return fmt.Errorf("event %d of Kept: %w", i, err)
		}
	}
	return nil
}
