package watchdog

import (
	"context"
	"slices"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
)

// Select implements [TransactionalStore].
func (m *Memory) Select(ctx context.Context, s Selection) ([]Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.selected(s), nil
}

// Transact implements [TransactionalStore]. Decide is called with the memory's mutex held and must not call the memory.
// If it panics, nothing is stored.
func (m *Memory) Transact(ctx context.Context, exchanges ...*Exchange) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := memoryTransaction{
		m: m, stored: make([]Event, 0, len(exchanges)), kept: make([][]Event, 0, len(exchanges)),
	}
	defer t.end()
	for _, x := range exchanges {
		if err := t.carryOut(x); err != nil {
			return err
		}
	}
	t.commit(exchanges)
	return nil
}

// A memoryTransaction is a call of Transact, which holds the mutex. The end takes back what was not committed, also
// while a Decide panics.
type memoryTransaction struct {
	m      *Memory
	stored []Event
	kept   [][]Event
}

func (t *memoryTransaction) carryOut(x *Exchange) error {
	events := x.Decide(t.m.selected(x.Selection))
	if err := validateAll(events); err != nil {
		return err
	}
	t.stored = t.m.keep(t.stored, events)
	kept := make([]Event, len(events))
	for i, e := range events {
		kept[i] = t.m.ids[e.ID].clone()
	}
	t.kept = append(t.kept, kept)
	return nil
}

func (t *memoryTransaction) commit(exchanges []*Exchange) {
	for i, x := range exchanges {
		x.Kept = t.kept[i]
	}
	t.m.notify(t.stored)
	t.stored = nil
}

func (t *memoryTransaction) end() {
	for _, e := range t.stored {
		t.m.forget(e)
	}
}

// forget removes a stored event. The caller holds the mutex.
func (m *Memory) forget(e Event) {
	delete(m.ids, e.ID)
	of := aggregateOf(e)
	at, _ := slices.BinarySearchFunc(m.events[of], &e, comparePointers)
	m.events[of] = slices.Delete(m.events[of], at, at+1)
}

// selected returns copies of the events that the selection selects. The caller holds the mutex.
func (m *Memory) selected(s Selection) []Event {
	of := aggregate{s.AggregateType, s.AggregateID}
	selected := cloneEvents(fromSince(m.events[of], s))
	for _, id := range s.IDs {
		if e, stored := m.ids[id]; stored && aggregateOf(*e) == of {
			selected = append(selected, e.clone())
		}
	}
	slices.SortFunc(selected, Event.Compare)
	return slices.CompactFunc(selected, func(a, b Event) bool { return a.ID == b.ID })
}

// fromSince returns the events of an ordered aggregate that Since and LatestOf select.
func fromSince(ordered []*Event, s Selection) []*Event {
	if s.Since.IsZero() {
		return nil
	}
	since := &Event{Timestamp: record.Truncate(s.Since)} // comes before every event of that time: it has no ID
	from, _ := slices.BinarySearchFunc(ordered, since, comparePointers)
	selected := slices.Clone(ordered[from:])
	for _, e := range slices.Backward(ordered[:from]) {
		if slices.Contains(s.LatestOf, e.Type) {
			return append(selected, e)
		}
	}
	return selected
}
