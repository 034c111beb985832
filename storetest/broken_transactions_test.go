package storetest_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/seed62658d38/watchdog"
)

const (
	decidesFromFound = "an exchange decides with what it selects, and what it decides is stored"
	exchangesInOrder = "exchanges are carried out in their order"
	invalidLater     = "a transaction with an invalid event in a later exchange stores nothing, and returns ErrInvalid"
	keptIsStored     = "Kept is what is stored under the IDs that Decide returned"
	oneAtATime       = "transactions of one aggregate do not overlap"
	doneTransaction  = "a transaction with a done context stores nothing and returns the context's error"
	allOrNothing     = "a context that ends during a transaction leaves all of it or nothing"
)

var brokenTransactions = []broken{
	{
		"decides with the whole aggregate", decidesFromFound,
		transactingAs(func(m *watchdog.Memory, ctx context.Context, exchanges []*watchdog.Exchange) error {
			for _, x := range exchanges {
				x.Since = x.Since.AddDate(-1, 0, 0)
			}
			return m.Transact(ctx, exchanges...)
		}),
	},
	{
		"stores only the first of the events", decidesFromFound,
		decidesChanged(func(_, decided []watchdog.Event) []watchdog.Event {
			if len(decided) == 2 && decided[0].ID == "d" {
				decided = decided[:1]
			}
			return decided
		}),
	},
	{
		"selects for all exchanges before it appends", exchangesInOrder,
		transactingAs(func(m *watchdog.Memory, ctx context.Context, exchanges []*watchdog.Exchange) error {
			for _, x := range exchanges[min(1, len(exchanges)):] {
				before, err := m.Select(ctx, x.Selection)
				if err != nil {
					return err
				}
				decide := x.Decide
				x.Decide = func([]watchdog.Event) []watchdog.Event { return decide(before) }
			}
			return m.Transact(ctx, exchanges...)
		}),
	},
	{
		"has a transaction for each exchange", invalidLater,
		transactingAs(func(m *watchdog.Memory, ctx context.Context, exchanges []*watchdog.Exchange) error {
			err := m.Transact(ctx, exchanges...)
			stored, _ := m.Read(ctx, watchdog.AggregateType, "run-1")
			if errors.Is(err, watchdog.ErrInvalid) && len(stored) > 0 {
				return errors.Join(err, m.Transact(ctx, exchanges[0]))
			}
			return err
		}),
	},
	{
		"returns an error of its own for an invalid event", invalidLater,
		transactingAs(func(m *watchdog.Memory, ctx context.Context, exchanges []*watchdog.Exchange) error {
			err := m.Transact(ctx, exchanges...)
			if errors.Is(err, watchdog.ErrInvalid) {
				return errors.New("constraint failed")
			}
			return err
		}),
	},
	{
		"keeps the IDs of a transaction that it took back", invalidLater,
		func() watchdog.EventStore {
			var undone atomic.Bool
			return &able{
				transact: func(m *watchdog.Memory, ctx context.Context, exchanges []*watchdog.Exchange) error {
					err := m.Transact(ctx, exchanges...)
					undone.Store(errors.Is(err, watchdog.ErrInvalid))
					return err
				},
				append: func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
					if undone.Load() {
						return nil
					}
					return m.Append(ctx, events...)
				},
			}
		},
	},
	{
		"returns what was decided, and not what is stored", keptIsStored,
		transactingAs(func(m *watchdog.Memory, ctx context.Context, exchanges []*watchdog.Exchange) error {
			decided := make([][]watchdog.Event, len(exchanges))
			for i, x := range exchanges {
				decide := x.Decide
				x.Decide = func(selected []watchdog.Event) []watchdog.Event {
					decided[i] = decide(selected)
					return decided[i]
				}
			}
			err := m.Transact(ctx, exchanges...)
			for i, x := range exchanges {
				x.Kept = decided[i]
			}
			return err
		}),
	},
	{
		"returns only what is new", keptIsStored,
		transactingAs(func(m *watchdog.Memory, ctx context.Context, exchanges []*watchdog.Exchange) error {
			before, _ := m.Read(ctx, watchdog.AggregateType, "run-1")
			err := m.Transact(ctx, exchanges...)
			for _, x := range exchanges {
				x.Kept = slices.DeleteFunc(x.Kept, func(e watchdog.Event) bool {
					return slices.ContainsFunc(before, func(b watchdog.Event) bool { return b.ID == e.ID })
				})
			}
			return err
		}),
	},
	{
		"now and then decides with what another transaction has just changed", oneAtATime,
		decidesChanged(func(selected, decided []watchdog.Event) []watchdog.Event {
			if len(selected) == 40 && len(decided) == 1 {
				decided[0].ID = selected[39].ID
			}
			return decided
		}),
	},
	{
		"ignores the context of a transaction", doneTransaction,
		transactingAs(func(m *watchdog.Memory, ctx context.Context, exchanges []*watchdog.Exchange) error {
			return m.Transact(context.WithoutCancel(ctx), exchanges...)
		}),
	},
	{
		"stores and then returns the context's error", doneTransaction,
		transactingAs(func(m *watchdog.Memory, ctx context.Context, exchanges []*watchdog.Exchange) error {
			return errors.Join(m.Transact(context.WithoutCancel(ctx), exchanges...), ctx.Err())
		}),
	},
	{
		"commits what it has when the context ends", allOrNothing,
		transactingAs(func(m *watchdog.Memory, ctx context.Context, exchanges []*watchdog.Exchange) error {
			for _, x := range exchanges {
				decide := x.Decide
				x.Decide = func(selected []watchdog.Event) []watchdog.Event {
					if decided := decide(selected); ctx.Err() == nil {
						return decided
					}
					return nil
				}
			}
			return errors.Join(m.Transact(ctx, exchanges...), ctx.Err())
		}),
	},
}

// decidesChanged returns a store that appends something else than what was decided.
func decidesChanged(change func(selected, decided []watchdog.Event) []watchdog.Event) func() watchdog.EventStore {
	return transactingAs(func(m *watchdog.Memory, ctx context.Context, exchanges []*watchdog.Exchange) error {
		for _, x := range exchanges {
			decide := x.Decide
			x.Decide = func(selected []watchdog.Event) []watchdog.Event { return change(selected, decide(selected)) }
		}
		return m.Transact(ctx, exchanges...)
	})
}
