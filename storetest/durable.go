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
// call that function several times. It closes the stores if they are an [io.Closer]. It does not check the rules of
// [Run].
func RunDurable(t *testing.T, place func(t *testing.T) (open func() (watchdog.EventStore, error))) {
	t.Helper()
	for _, r := range durableRules {
		t.Run(r.name, func(t *testing.T) {
			at := place(t)
			r.report(t, contract.Within(t.Context(), checkTimeout, func(ctx context.Context) error { return r.check(ctx, at) }))
		})
	}
}

// TestDurable checks the rules of [RunDurable] without a testing.T. It returns nil, or one error that joins a
// [*Violation] for each broken rule.
func TestDurable(place func() (open func() (watchdog.EventStore, error))) error {
	var violations []error
	for _, r := range durableRules {
		at := place()
		err := contract.Within(context.Background(), checkTimeout, func(ctx context.Context) error {
			return r.check(ctx, at)
		})
		if err != nil {
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
				return raceForOneID(ctx, one, other)
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
