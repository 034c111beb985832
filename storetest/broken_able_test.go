package storetest_test

import (
	"context"

	"github.com/seed62658d38/watchdog"
)

// able is a Memory whose optional methods can be replaced.
type able struct {
	watchdog.Memory
	choose   func(m *watchdog.Memory, ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error)
	transact func(m *watchdog.Memory, ctx context.Context, exchanges []*watchdog.Exchange) error
	layers   func(m *watchdog.Memory, ctx context.Context, parent string) ([]string, error)
	follow   followFunc
	append   func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error
}

type followFunc = func(
	m *watchdog.Memory, ctx context.Context, aggregateID string, ready func(), told func(watchdog.Event),
) error

func (a *able) Select(ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
	if a.choose == nil {
		return a.Memory.Select(ctx, s)
	}
	return a.choose(&a.Memory, ctx, s)
}

func (a *able) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	if a.transact == nil {
		return a.Memory.Transact(ctx, exchanges...)
	}
	return a.transact(&a.Memory, ctx, exchanges)
}

func (a *able) Layers(ctx context.Context, parent string) ([]string, error) {
	if a.layers == nil {
		return a.Memory.Layers(ctx, parent)
	}
	return a.layers(&a.Memory, ctx, parent)
}

func (a *able) Follow(ctx context.Context, aggregateID string, ready func(), told func(watchdog.Event)) error {
	if a.follow == nil {
		return a.Memory.Follow(ctx, aggregateID, ready, told)
	}
	return a.follow(&a.Memory, ctx, aggregateID, ready, told)
}

func (a *able) Append(ctx context.Context, events ...watchdog.Event) error {
	if a.append == nil {
		return a.Memory.Append(ctx, events...)
	}
	return a.append(&a.Memory, ctx, events)
}

func selecting(
	how func(m *watchdog.Memory, ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error),
) func() watchdog.EventStore {
	return func() watchdog.EventStore { return &able{choose: how} }
}

// selectsChanged returns a store that changes what it selects.
func selectsChanged(
	change func(s watchdog.Selection, selected []watchdog.Event) []watchdog.Event,
) func() watchdog.EventStore {
	return selecting(func(m *watchdog.Memory, ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
		selected, err := m.Select(ctx, s)
		if err != nil {
			return nil, err
		}
		return change(s, selected), nil
	})
}

func transactingAs(
	how func(m *watchdog.Memory, ctx context.Context, exchanges []*watchdog.Exchange) error,
) func() watchdog.EventStore {
	return func() watchdog.EventStore { return &able{transact: how} }
}

func layering(
	how func(m *watchdog.Memory, ctx context.Context, parent string) ([]string, error),
) func() watchdog.EventStore {
	return func() watchdog.EventStore { return &able{layers: how} }
}

func followingAs(how followFunc) func() watchdog.EventStore {
	return func() watchdog.EventStore { return &able{follow: how} }
}
