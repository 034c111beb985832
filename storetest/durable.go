package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract"
)

// RunDurable checks a store that outlives its process, each rule in a subtest: a store that is opened again has the
// appended events, and stores that are open in one place at once share their events. It calls place once per rule.
// place must prepare an empty place, such as a folder, and return a function that opens a store there; RunDurable may
// call that function several times. It closes the stores if they are an [io.Closer]. It skips the rule of
// [watchdog.TransactionalStore] if the store does not implement it, and does not check the rules of [Run].
func RunDurable(t *testing.T, place func(t *testing.T) (open func() (watchdog.EventStore, error))) {
	t.Helper()
	for _, r := range durableRules {
		t.Run(r.name, func(t *testing.T) {
			err := r.checkAt(t.Context(), place(t))
			if errors.Is(err, errOptional) {
				t.Skip(err)
			}
			r.report(t, err)
		})
	}
}

// TestDurable checks the rules of [RunDurable] without a testing.T. It returns nil, or one error that joins a
// [*Violation] for each broken rule. It leaves out the rule that RunDurable skips.
func TestDurable(place func() (open func() (watchdog.EventStore, error))) error {
	var violations []error
	for _, r := range durableRules {
		if err := r.checkAt(context.Background(), place()); err != nil && !errors.Is(err, errOptional) {
			violations = append(violations, r.violation(err))
		}
	}
	return errors.Join(violations...)
}

// A durableRule is a rule about a place where stores can be opened.
type durableRule struct {
	name, why string
	check     func(ctx context.Context, open opener) error
}

type opener = func() (watchdog.EventStore, error)

func (r durableRule) checkAt(ctx context.Context, open opener) error {
	return contract.Within(ctx, checkTimeout, func(ctx context.Context) error { return r.check(ctx, open) })
}

func (r durableRule) violation(err error) *Violation {
	return rule{name: r.name, why: r.why}.violation(err)
}

func (r durableRule) report(t *testing.T, err error) {
	t.Helper()
	rule{name: r.name, why: r.why}.report(t, err)
}

var durableRules = []durableRule{
	{
		"events are stored when the store is opened again",
		"after a crash or a restart only the event store knows that a run was cancelled, and why",
		func(ctx context.Context, open opener) error {
			return errors.Join(
				withStore(open, func(store watchdog.EventStore) error { return put(ctx, store, numbered("a", 1)) }),
				withStore(open, func(store watchdog.EventStore) error { return holds(ctx, store, "a") }),
			)
		},
	},
	{
		"an ID stored before the store was opened again is still taken",
		"a restarted process fires the same cancel again: it must find the stored one and not add a second",
		func(ctx context.Context, open opener) error {
			first, second := numbered("a", 1), numbered("a", 1)
			second.Payload = []byte(`{"n":2}`)
			return errors.Join(
				withStore(open, func(store watchdog.EventStore) error { return put(ctx, store, first) }),
				withStore(open, func(store watchdog.EventStore) error {
					return errors.Join(put(ctx, store, second), holdsFirst(ctx, store, first))
				}),
			)
		},
	},
	{
		"stores open at once see each other's events",
		"a second process that attaches to a run must see that the first has cancelled it",
		func(ctx context.Context, open opener) error {
			return withTwo(open, func(one, other watchdog.EventStore) error {
				return errors.Join(
					put(ctx, one, numbered("a", 1)), holds(ctx, other, "a"),
					put(ctx, other, numbered("b", 2)), holds(ctx, one, "a", "b"),
				)
			})
		},
	},
	{
		"stores open at once keep one event of an ID",
		"two processes that guard one run may fire at the same moment: a window has one cancel event, whoever wins",
		func(ctx context.Context, open opener) error {
			return withTwo(open, func(one, other watchdog.EventStore) error {
				return raceForOneID(ctx, mostRounds, one, other)
			})
		},
	},
	{
		"transactions of stores open at once do not overlap",
		"two processes that both find no cancel would both decide one: a lock within each process is not enough",
		func(ctx context.Context, open opener) error {
			return withTwo(open, func(one, other watchdog.EventStore) error {
				return transacting(func(ctx context.Context, one watchdog.TransactionalStore) error {
					second, ok := other.(watchdog.TransactionalStore)
					if !ok {
						return fmt.Errorf("one open returned a %T, and another a %T", one, other)
					}
					return overlap(ctx, one, second)
				})(ctx, one)
			})
		},
	},
}

// withStore opens a store, uses it and closes it.
func withStore(open opener, use func(watchdog.EventStore) error) error {
	store, err := open()
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	return errors.Join(use(store), contract.Close(store))
}

func withTwo(open opener, use func(one, other watchdog.EventStore) error) error {
	return withStore(open, func(one watchdog.EventStore) error {
		return withStore(open, func(other watchdog.EventStore) error { return use(one, other) })
	})
}
