package watchdog

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/seed62658d38/watchdog/internal/record"
)

// A Memory is an [EventStore] that keeps its events in memory: for tests, and for hosts that do not need to know after a
// restart why a run ended. The zero value is ready; it must not be copied after its first use. Safe for
// concurrent use.
type Memory struct {
	mu     sync.Mutex
	ids    map[string]struct{}
	events map[aggregate][]Event
}

type aggregate struct{ kind, id string }

// Append implements [EventStore].
func (m *Memory) Append(ctx context.Context, events ...Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, e := range events {
		if err := e.Validate(); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, e := range events {
		m.keep(e)
	}
	return nil
}

func (m *Memory) keep(e Event) {
	if _, stored := m.ids[e.ID]; stored {
		return
	}
	if m.ids == nil {
		m.ids, m.events = map[string]struct{}{}, map[aggregate][]Event{}
	}
	e.Timestamp, e.Payload = record.Truncate(e.Timestamp), bytes.Clone(e.Payload)
	m.ids[e.ID] = struct{}{}
	of := aggregate{e.AggregateType, e.AggregateID}
	list := m.events[of]
	at, _ := slices.BinarySearchFunc(list, e, Event.Compare)
	m.events[of] = slices.Insert(list, at, e)
}

// Read implements [EventStore].
func (m *Memory) Read(ctx context.Context, aggregateType, aggregateID string) ([]Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	events := slices.Clone(m.events[aggregate{aggregateType, aggregateID}])
	for i := range events {
		events[i].Payload = bytes.Clone(events[i].Payload)
	}
	return events, nil
}
