package watchdog

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
)

// A Memory is an [EventStore], a [TransactionalStore], a [FeedStore] and a [SpendStore] that keeps what it is told in
// memory: for tests, and for hosts that do not need to know after a restart why a run ended. The zero value is ready;
// it must not be copied after its first use. Safe for concurrent use.
type Memory struct {
	mu        sync.Mutex
	ids       map[string]*Event
	events    map[aggregate][]*Event
	followers map[*follower]struct{}
	spend     memorySpend
}

type aggregate struct{ kind, id string }

// Append implements [EventStore].
func (m *Memory) Append(ctx context.Context, events ...Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := validateAll(events); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notify(m.keep(nil, events))
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

// keep stores the events whose IDs are free, and returns them after those that were stored before. The caller holds the
// mutex.
func (m *Memory) keep(stored, events []Event) []Event {
	if m.ids == nil {
		m.ids, m.events = map[string]*Event{}, map[aggregate][]*Event{}
	}
	for _, e := range events {
		if _, taken := m.ids[e.ID]; taken {
			continue
		}
		e.Timestamp, e.Payload = record.Truncate(e.Timestamp), bytes.Clone(e.Payload)
		m.ids[e.ID] = &e
		of := aggregateOf(e)
		list := m.events[of]
		at, _ := slices.BinarySearchFunc(list, &e, comparePointers)
		m.events[of] = slices.Insert(list, at, &e)
		stored = append(stored, e)
	}
	return stored
}

func aggregateOf(e Event) aggregate { return aggregate{e.AggregateType, e.AggregateID} }

// Read implements [EventStore].
func (m *Memory) Read(ctx context.Context, aggregateType, aggregateID string) ([]Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return cloneEvents(m.events[aggregate{aggregateType, aggregateID}]), nil
}

func comparePointers(one, other *Event) int { return one.Compare(*other) }

// cloneEvents copies the payloads, too, so that the copy is the caller's.
func cloneEvents(events []*Event) []Event {
	if len(events) == 0 {
		return nil
	}
	all := make([]Event, len(events))
	for i, e := range events {
		all[i] = e.clone()
	}
	return all
}

func (e Event) clone() Event {
	e.Payload = bytes.Clone(e.Payload)
	return e
}

var (
	_ TransactionalStore = (*Memory)(nil)
	_ FeedStore          = (*Memory)(nil)
)
