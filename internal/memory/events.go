// Package memory keeps what an event store keeps, in memory. The root makes its Memory of it.
//
// It checks nothing of what it is given: the root does.
package memory

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ordered"
	"github.com/seed62658d38/watchdog/internal/record"
)

// Events are kept in order, each ID once. An event that is kept does not change. The zero value is ready; it must not
// be copied after its first use. Safe for concurrent use.
type Events struct {
	mu     sync.Mutex
	ids    map[string]*fold.Event
	events map[aggregate][]*fold.Event // in order
}

type aggregate struct{ kind, id string }

func aggregateOf(e *fold.Event) aggregate { return aggregate{e.AggregateType, e.AggregateID} }

// A Transaction has the events for itself until its End. It must not be copied after its first use.
type Transaction struct {
	*Events
	stored []*fold.Event // and not committed
}

// Begin waits until other transactions have ended, unless ctx has ended already. This one is to keep about n events.
func (s *Events) Begin(ctx context.Context, n int) (t Transaction, err error) {
	if err := ctx.Err(); err != nil {
		return t, err
	}
	s.mu.Lock()
	return Transaction{s, make([]*fold.Event, 0, n)}, nil
}

// End removes what was kept and not committed. It has to be called, also after a panic.
func (t *Transaction) End() {
	defer t.mu.Unlock()
	for _, e := range t.stored {
		delete(t.ids, e.ID)
		of := aggregateOf(e)
		at, _ := slices.BinarySearchFunc(t.events[of], e, compare)
		t.events[of] = slices.Delete(t.events[of], at, at+1)
	}
}

// Commit keeps what was kept.
func (t *Transaction) Commit() { t.stored = nil }

// Keep keeps a copy of the event if its ID is free, and returns the one that is kept under it.
func (t *Transaction) Keep(e *fold.Event) *fold.Event {
	if first := t.ids[e.ID]; first != nil {
		return first
	}
	if t.ids == nil {
		t.ids, t.events = map[string]*fold.Event{}, map[aggregate][]*fold.Event{}
	}
	kept := *e
	kept.Timestamp, kept.Payload = record.Truncate(e.Timestamp), bytes.Clone(e.Payload)
	t.ids[e.ID], t.stored = &kept, append(t.stored, &kept)
	of := aggregateOf(&kept)
	at, _ := slices.BinarySearchFunc(t.events[of], &kept, compare)
	t.events[of] = slices.Insert(t.events[of], at, &kept)
	return &kept
}

func compare(one, other *fold.Event) int { return one.Compare(*other) }

// All returns the events of an aggregate. The slice must not be changed, and is valid until the next call.
func (t *Transaction) All(aggregateType, aggregateID string) []*fold.Event {
	return t.events[aggregate{aggregateType, aggregateID}]
}

// Select appends the events that the selection selects to a slice that is empty, in order and each once.
func (t *Transaction) Select(selected []*fold.Event, by fold.Selection) []*fold.Event {
	of := aggregate{by.AggregateType, by.AggregateID}
	selected = appendSince(&by, selected, t.events[of])
	for _, id := range by.IDs {
		if e := t.ids[id]; e != nil && aggregateOf(e) == of {
			selected = append(selected, e)
		}
	}
	ordered.Sort(selected, compare)
	return slices.Compact(selected)
}

// appendSince appends the events of an ordered aggregate that Since and LatestOf select.
func appendSince(by *fold.Selection, selected, ordered []*fold.Event) []*fold.Event {
	if by.Since.IsZero() {
		return selected
	}
	since := &fold.Event{Timestamp: record.Truncate(by.Since)} // comes before every event of that time: it has no ID
	from, _ := slices.BinarySearchFunc(ordered, since, compare)
	selected = append(selected, unknown(by, ordered[from:])...)
	if len(by.LatestOf) == 0 {
		return selected
	}
	for _, e := range slices.Backward(ordered[:from]) {
		if slices.Contains(by.LatestOf, e.Type) {
			return append(selected, e)
		}
	}
	return selected
}

// unknown returns the ordered events less those that the caller knows.
func unknown(by *fold.Selection, ordered []*fold.Event) []*fold.Event {
	if by.Known <= 0 || by.Known > len(ordered) || by.Until.IsZero() {
		return ordered
	}
	until, _ := slices.BinarySearchFunc(ordered, &fold.Event{Timestamp: record.Truncate(by.Until)}, compare)
	if until != by.Known {
		return ordered
	}
	return ordered[until:]
}

// Count is how many events an aggregate has.
func (s *Events) Count(aggregateType, aggregateID string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.events[aggregate{aggregateType, aggregateID}])
}

// Layers returns the IDs of the aggregates of a type that have an event whose payload names parent, sorted. It looks at
// every event.
func (s *Events) Layers(ctx context.Context, aggregateType, parent string) (layers []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, events := range s.events {
		if of.kind == aggregateType && slices.ContainsFunc(events, func(e *fold.Event) bool { return names(e, parent) }) {
			layers = append(layers, of.id)
		}
	}
	slices.Sort(layers)
	return layers, nil
}

// names reports whether the payload names the parent. It needs a map: the fields of a struct ignore case.
func names(e *fold.Event, parent string) bool {
	var keys map[string]json.RawMessage
	var named *string
	return json.Unmarshal(e.Payload, &keys) == nil && json.Unmarshal(keys["parent"], &named) == nil &&
		named != nil && *named == parent
}
