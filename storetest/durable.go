package storetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

// An opener opens stores in one place.
type opener = func() (watchdog.EventStore, error)

var durableRules = []rule[opener]{
	{"events are stored when the store is opened again",
		"after a crash or a restart only the event store knows that a run was cancelled, and why",
		inTurn(opened(put(numbered("a", 1))), opened(holds("a")))},
	{"an ID stored before the store was opened again is still taken",
		"a restarted process fires the same cancel again: it must find the stored one and not add a second",
		inTurn(opened(put(numbered("a", 1))), opened(inTurn(put(anotherA), keeps(numbered("a", 1)))))},
	{"stores open at once see each other's events",
		"a second process that attaches to a run must see that the first has cancelled it",
		openedTwice(func(ctx context.Context, one, other watchdog.EventStore) error {
			return errors.Join(
				put(numbered("a", 1))(ctx, one), holds("a")(ctx, other),
				put(numbered("b", 2))(ctx, other), holds("a", "b")(ctx, one),
			)
		})},
	{"stores open at once keep one event of an ID",
		"two processes that guard one run may fire at the same moment: a window has one cancel event, whoever wins",
		openedTwice(func(ctx context.Context, one, other watchdog.EventStore) error {
			return raceForOneID(ctx, mostRounds, one, other)
		})},
	{"transactions of stores open at once do not overlap",
		"two processes that both find no cancel would both decide one: a lock within each process is not enough",
		openedTwice(func(ctx context.Context, one, other watchdog.EventStore) error {
			return ifIs[watchdog.TransactionalStore](func(ctx context.Context, one watchdog.EventStore) error {
				if _, ok := other.(watchdog.TransactionalStore); !ok {
					return fmt.Errorf("one open returned a %T, and another a %T", one, other)
				}
				return overlap(ctx, one, other)
			})(ctx, one)
		})},
}

// opened opens a store, makes the step and closes it.
func opened(use step) check[opener] {
	return func(ctx context.Context, open opener) error {
		store, err := open()
		if err != nil {
			return fmt.Errorf("open the store: %w", err)
		}
		return errors.Join(use(ctx, store), contract.Close(store))
	}
}

func openedTwice(use func(ctx context.Context, one, other watchdog.EventStore) error) check[opener] {
	return func(ctx context.Context, open opener) error {
		return opened(func(ctx context.Context, one watchdog.EventStore) error {
			return opened(func(ctx context.Context, other watchdog.EventStore) error {
				return use(ctx, one, other)
			})(ctx, open)
		})(ctx, open)
	}
}
