package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/seed62658d38/watchdog"
)

// RunDurable checks a store that outlives its process, each rule in a subtest: what was appended is there when the
// store is opened again, and stores open at once on one place act as one. It calls place once per rule, for an empty
// place such as a folder; what place returns opens a store there, as often as it is called, and the stores are
// closed by RunDurable if they are an [io.Closer]. It does not include the rules of [Run].
func RunDurable(t *testing.T, place func(t *testing.T) (open func() (watchdog.EventStore, error))) {
	t.Helper()
	for _, r := range durableRules {
		t.Run(r.name, func(t *testing.T) {
			at := place(t)
			r.report(t, withTimeout(t.Context(), func(ctx context.Context) error { return r.check(ctx, at) }))
		})
	}
}

// TestDurable checks the rules of [RunDurable] without a test. It returns nil, or one error that joins a
// [*Violation] for each rule that does not hold.
func TestDurable(place func() (open func() (watchdog.EventStore, error))) error {
	var violations []error
	for _, r := range durableRules {
		at := place()
		err := withTimeout(context.Background(), func(ctx context.Context) error { return r.check(ctx, at) })
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
		"events are there after the store was opened again",
		"the event store is what remembers, after a crash or a restart, that a run was cancelled and why",
		func(ctx context.Context, open opener) error {
			return errors.Join(
				withStore(open, func(store watchdog.EventStore) error { return put(ctx, store, numbered("a", 1)) }),
				withStore(open, func(store watchdog.EventStore) error { return holds(ctx, store, "a") }),
			)
		},
	},
	{
		"an ID stored before the store was opened again is still taken",
		"a restarted process fires the same cancel once more: it has to find the stored one, not add a second",
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
		"a second process that attaches to a run has to see that the first has cancelled it already",
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
		"two processes that guard one run fire at the same moment: there is one cancel event per window, whoever wins",
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
	return errors.Join(use(store), closeStore(store))
}

func withTwo(open opener, use func(one, other watchdog.EventStore) error) error {
	return withStore(open, func(one watchdog.EventStore) error {
		return withStore(open, func(other watchdog.EventStore) error { return use(one, other) })
	})
}
