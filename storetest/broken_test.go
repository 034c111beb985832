package storetest_test

import (
	"context"
	"slices"

	"github.com/seed62658d38/watchdog"
)

// broken is a store with one flaw, and the rule that must find it.
type broken struct {
	flaw   string // completes "a store that …"
	breaks string
	open   func() watchdog.EventStore
}

func brokenStores() []broken {
	return slices.Concat(brokenFields, brokenRefusals, brokenBatches, brokenIdentity, brokenOrder, brokenTimes,
		brokenAggregates, brokenPayloads, brokenContexts, brokenOwnership, brokenConcurrency,
		brokenSelections, brokenTransactions, brokenLayers, brokenFollows)
}

// altered is a Memory with another Append or another Read.
type altered struct {
	memory watchdog.Memory
	append func(*watchdog.Memory, context.Context, []watchdog.Event) error
	read   func(*watchdog.Memory, context.Context, string, string) ([]watchdog.Event, error)
}

func (a *altered) Append(ctx context.Context, events ...watchdog.Event) error {
	if a.append == nil {
		return a.memory.Append(ctx, events...)
	}
	return a.append(&a.memory, ctx, events)
}

func (a *altered) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	if a.read == nil {
		return a.memory.Read(ctx, aggregateType, aggregateID)
	}
	return a.read(&a.memory, ctx, aggregateType, aggregateID)
}

// writes returns a store with another Append.
func writes(
	how func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error,
) func() watchdog.EventStore {
	return func() watchdog.EventStore { return &altered{append: how} }
}

// writesChanged returns a store that changes each event before it stores it.
func writesChanged(change func(e *watchdog.Event)) func() watchdog.EventStore {
	return writes(func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
		events = slices.Clone(events)
		for i := range events {
			change(&events[i])
		}
		return m.Append(ctx, events...)
	})
}

// refuses returns a store that fails for some batches.
func refuses(which func(events []watchdog.Event) error) func() watchdog.EventStore {
	return writes(func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
		if err := which(events); err != nil {
			return err
		}
		return m.Append(ctx, events...)
	})
}

// reads returns a store that changes what it reads.
func reads(change func(events []watchdog.Event) ([]watchdog.Event, error)) func() watchdog.EventStore {
	return func() watchdog.EventStore {
		return &altered{read: func(m *watchdog.Memory, ctx context.Context, kind, id string) ([]watchdog.Event, error) {
			events, err := m.Read(ctx, kind, id)
			if err != nil {
				return nil, err
			}
			return change(events)
		}}
	}
}

// readsChanged returns a store that changes each event that it reads.
func readsChanged(change func(e *watchdog.Event)) func() watchdog.EventStore {
	return reads(func(events []watchdog.Event) ([]watchdog.Event, error) {
		for i := range events {
			change(&events[i])
		}
		return events, nil
	})
}
