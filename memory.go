package watchdog

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/memory"
)

// A Memory is an [EventStore], a [TransactionalStore], a [FeedStore] and a [SpendStore] that keeps what it is told in
// memory: for tests, and for hosts that do not need to know after a restart why a run ended. The zero value is ready;
// it must not be copied after its first use. Safe for concurrent use.
type Memory struct {
	events memory.Events
	spend  memory.Spend[Slice, Totals]
}

// Append implements [EventStore].
func (m *Memory) Append(ctx context.Context, events ...Event) error {
	if err := validateAll(events); err != nil {
		return err
	}
	t, err := m.events.Begin(ctx, len(events))
	if err != nil {
		return err
	}
	defer t.End()
	for i := range events {
		t.Keep((*fold.Event)(&events[i]))
	}
	t.Commit()
	return nil
}

func validateAll(events []Event) error {
	for _, e := range events {
		if err := e.Validate(); err != nil {
			return err
		}
	}
	return nil
}

// Read implements [EventStore].
func (m *Memory) Read(ctx context.Context, aggregateType, aggregateID string) ([]Event, error) {
	t, err := m.events.Begin(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer t.End()
	return cloneEvents(t.All(aggregateType, aggregateID)), nil
}

// Select implements [TransactionalStore].
func (m *Memory) Select(ctx context.Context, s Selection) ([]Event, error) {
	t, err := m.events.Begin(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer t.End()
	return cloneEvents(t.Select(make([]*fold.Event, 0, 8), fold.Selection(s))), nil
}

// Transact implements [TransactionalStore]. Decide is called with the memory's mutex held and must not call the memory.
// If it panics, nothing is stored.
func (m *Memory) Transact(ctx context.Context, exchanges ...*Exchange) error {
	t, err := m.events.Begin(ctx, len(exchanges))
	if err != nil {
		return err
	}
	defer t.End()
	kept, selected := make([][]Event, len(exchanges)), make([]*fold.Event, 0, 8)
	for i, x := range exchanges {
		selected = t.Select(selected[:0], fold.Selection(x.Selection))
		events := x.Decide(cloneEvents(selected))
		if err := validateAll(events); err != nil {
			return err
		}
		kept[i] = make([]Event, len(events))
		for j := range events {
			kept[i][j] = cloneEvent(t.Keep((*fold.Event)(&events[j])))
		}
	}
	for i, x := range exchanges {
		x.Kept = kept[i]
	}
	t.Commit()
	return nil
}

// cloneEvents copies the payloads, too, so that the copy is the caller's.
func cloneEvents(events []*fold.Event) []Event {
	if len(events) == 0 {
		return nil
	}
	all := make([]Event, len(events))
	for i, e := range events {
		all[i] = cloneEvent(e)
	}
	return all
}

func cloneEvent(e *fold.Event) Event {
	clone := Event(*e)
	clone.Payload = bytes.Clone(e.Payload)
	return clone
}

// Layers implements [FeedStore]. It looks at every event.
func (m *Memory) Layers(ctx context.Context, parent string) ([]string, error) {
	return m.events.Layers(ctx, AggregateType, parent)
}

// Follow implements [FeedStore]. It calls told with no lock held, and keeps what is stored meanwhile, without a limit.
// It starts no goroutine.
func (m *Memory) Follow(ctx context.Context, aggregateID string, ready func(), told func(Event)) error {
	return m.events.Follow(ctx, AggregateType, aggregateID, ready, func(e *fold.Event) { told(cloneEvent(e)) })
}

// Take implements [SpendStore]. Its clock is [time.Now]. A window is forgotten a day after its end, with its slices.
func (m *Memory) Take(ctx context.Context, s Slice) (Grant, error) {
	if err := ctx.Err(); err != nil {
		return Grant{}, err
	}
	if err := s.Validate(); err != nil {
		return Grant{}, err
	}
	now := time.Now()
	name, ends := s.WindowAt(now) // before the lock: it reads the zone
	g, err := m.spend.Take(s.ID, s, memory.Window{Scope: s.Scope, Name: name}, ends, now)
	if err != nil {
		return Grant{}, err
	}
	return Grant{Fits: g.Fits, Granted: g.Granted, Charged: g.Charged, Window: g.Window}.Until(g.Ends, time.Now()), nil
}

// Return implements [SpendStore].
func (m *Memory) Return(ctx context.Context, id string, unused Totals) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	known, err := m.spend.Return(id, unused)
	if !known {
		return fmt.Errorf("%w return: there is no slice %q", ErrInvalid, id)
	}
	return err
}

var _ interface {
	TransactionalStore
	FeedStore
	SpendStore
} = (*Memory)(nil)
