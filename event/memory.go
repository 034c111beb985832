package event

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/seed62658d38/watchdog/internal/ordered"
)

// A Memory is a [TransactionalStore] and a [LayerStore] that keeps what it is told in memory: for tests, and for hosts
// that do not need to know after a restart why a run ended. The zero value is ready; it must not be copied after its
// first use. Safe for concurrent use.
type Memory struct {
	mu     sync.Mutex
	ids    map[string]*Event
	events map[aggregate][]*Event // in order; an event that is kept does not change
}

type aggregate struct{ kind, id string }

func (e *Event) aggregate() aggregate { return aggregate{e.AggregateType, e.AggregateID} }

// Append implements [Store].
func (m *Memory) Append(ctx context.Context, events ...Event) error {
	if err := validateAll(events); err != nil {
		return err
	}
	t, err := m.begin(ctx, len(events))
	if err != nil {
		return err
	}
	defer t.end()
	for i := range events {
		t.keep(&events[i])
	}
	t.commit()
	return nil
}

func validateAll(events []Event) error {
	for i := range events {
		if err := events[i].Validate(); err != nil {
			return err
		}
	}
	return nil
}

// Read implements [Store].
func (m *Memory) Read(ctx context.Context, aggregateType, aggregateID string) ([]Event, error) {
	t, err := m.begin(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer t.end()
	return cloneAll(m.events[aggregate{aggregateType, aggregateID}]), nil
}

// Len returns how many events an aggregate has.
func (m *Memory) Len(aggregateType, aggregateID string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.events[aggregate{aggregateType, aggregateID}])
}

// Select implements [TransactionalStore].
func (m *Memory) Select(ctx context.Context, s Selection) ([]Event, error) {
	t, err := m.begin(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer t.end()
	return cloneAll(m.selected(make([]*Event, 0, 8), &s)), nil
}

// Transact implements [TransactionalStore]. Decide is called with the memory's mutex held and must not call the memory.
// If it panics, nothing is stored.
func (m *Memory) Transact(ctx context.Context, exchanges ...*Exchange) error {
	t, err := m.begin(ctx, len(exchanges))
	if err != nil {
		return err
	}
	defer t.end()
	kept, selected := make([][]Event, len(exchanges)), make([]*Event, 0, 8)
	for i, x := range exchanges {
		selected = m.selected(selected[:0], &x.Selection)
		events := x.Decide(cloneAll(selected))
		if err := validateAll(events); err != nil {
			return err
		}
		kept[i] = make([]Event, len(events))
		for j := range events {
			kept[i][j] = t.keep(&events[j]).clone()
		}
	}
	for i, x := range exchanges {
		x.Kept = kept[i]
	}
	t.commit()
	return nil
}

// Layers implements [LayerStore]. It looks at every event.
func (m *Memory) Layers(ctx context.Context, parent string) (layers []string, err error) {
	t, err := m.begin(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer t.end()
	isChild := func(e *Event) bool { return e.names(parent) }
	for of, events := range m.events {
		if of.kind == AggregateType && slices.ContainsFunc(events, isChild) {
			layers = append(layers, of.id)
		}
	}
	slices.Sort(layers)
	return layers, nil
}

// names reports whether the payload names the parent. It needs a map: the fields of a struct ignore case.
func (e *Event) names(parent string) bool {
	var keys map[string]json.RawMessage
	var named *string
	return json.Unmarshal(e.Payload, &keys) == nil && json.Unmarshal(keys["parent"], &named) == nil &&
		named != nil && *named == parent
}

// A transaction has the events for itself until its end.
type transaction struct {
	*Memory
	stored []*Event // and not committed
}

// begin waits until other transactions have ended, unless ctx has ended already. This one is to keep about n events.
func (m *Memory) begin(ctx context.Context, n int) (t transaction, err error) {
	if err := ctx.Err(); err != nil {
		return t, err
	}
	m.mu.Lock()
	return transaction{m, make([]*Event, 0, n)}, nil
}

// end removes what was kept and not committed. It has to be called, also after a panic.
func (t *transaction) end() {
	defer t.mu.Unlock()
	for _, e := range t.stored {
		delete(t.ids, e.ID)
		of := e.aggregate()
		at, _ := slices.BinarySearchFunc(t.events[of], e, compare)
		t.events[of] = slices.Delete(t.events[of], at, at+1)
	}
}

func (t *transaction) commit() { t.stored = nil }

// keep keeps a copy of the event if its ID is free, and returns the one that is kept under it.
func (t *transaction) keep(e *Event) *Event {
	if first := t.ids[e.ID]; first != nil {
		return first
	}
	if t.ids == nil {
		t.ids, t.events = map[string]*Event{}, map[aggregate][]*Event{}
	}
	kept := e.clone()
	kept.Timestamp = Truncate(e.Timestamp)
	t.ids[e.ID], t.stored = &kept, append(t.stored, &kept)
	of := kept.aggregate()
	at, _ := slices.BinarySearchFunc(t.events[of], &kept, compare)
	t.events[of] = slices.Insert(t.events[of], at, &kept)
	return &kept
}

func compare(one, other *Event) int { return one.Compare(*other) }

// selected appends the events that the selection selects to a slice that is empty, in order and each once.
func (m *Memory) selected(all []*Event, by *Selection) []*Event {
	of := aggregate{by.AggregateType, by.AggregateID}
	all = appendSince(by, all, m.events[of])
	for _, id := range by.IDs {
		if e := m.ids[id]; e != nil && e.aggregate() == of {
			all = append(all, e)
		}
	}
	ordered.Sort(all, compare)
	return slices.Compact(all)
}

// appendSince appends the events of an ordered aggregate that Since and LatestOf select.
func appendSince(by *Selection, all, ordered []*Event) []*Event {
	if by.Since.IsZero() {
		return all
	}
	since := &Event{Timestamp: Truncate(by.Since)} // comes before every event of that time: it has no ID
	from, _ := slices.BinarySearchFunc(ordered, since, compare)
	all = append(all, unknown(by, ordered[from:])...)
	if len(by.LatestOf) == 0 {
		return all
	}
	for _, e := range slices.Backward(ordered[:from]) {
		if slices.Contains(by.LatestOf, e.Type) {
			return append(all, e)
		}
	}
	return all
}

// unknown returns the ordered events less those that the caller knows.
func unknown(by *Selection, ordered []*Event) []*Event {
	if by.Known <= 0 || by.Known > len(ordered) || by.Until.IsZero() {
		return ordered
	}
	until, _ := slices.BinarySearchFunc(ordered, &Event{Timestamp: Truncate(by.Until)}, compare)
	if until != by.Known {
		return ordered
	}
	return ordered[until:]
}

// cloneAll copies the payloads, too, so that the copy is the caller's.
func cloneAll(events []*Event) []Event {
	if len(events) == 0 {
		return nil
	}
	all := make([]Event, len(events))
	for i, e := range events {
		all[i] = e.clone()
	}
	return all
}

func (e *Event) clone() Event {
	clone := *e
	clone.Payload = bytes.Clone(e.Payload)
	return clone
}

var _ interface {
	TransactionalStore
	LayerStore
} = (*Memory)(nil)
