package watchdog

import (
	"bytes"
	"context"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/memory"
	"github.com/seed62658d38/watchdog/internal/unwrap"
)

// A hostStore is the host's store as package journal asks it.
type hostStore struct{ events EventStore }

// transacts is the same, nil if it cannot.
func (s *hostStore) transacts() TransactionalStore {
	transacts, _ := unwrap.To[TransactionalStore, EventStore](s.events)
	return transacts
}

// instant reports that the store answers at once: nobody has to wait for it.
func (s *hostStore) instant() bool {
	switch s.events.(type) {
	case *Memory, nowhere:
		return true
	}
	return false
}

func (s *hostStore) Append(ctx context.Context, events ...fold.Event) error {
	return s.events.Append(ctx, ofFold(events)...)
}

func (s *hostStore) Read(ctx context.Context, runID string) ([]fold.Event, error) {
	events, err := s.events.Read(ctx, AggregateType, runID)
	return toFold(events), err
}

func (s *hostStore) Transacts() bool { return s.transacts() != nil }

func (s *hostStore) Select(ctx context.Context, by fold.Selection) ([]fold.Event, error) {
	events, err := s.transacts().Select(ctx, Selection(by))
	return toFold(events), err
}

func (s *hostStore) Transact(ctx context.Context, exchanges ...*journal.Exchange) error {
	asked, all, kept := make([]Exchange, len(exchanges)), make([]*Exchange, len(exchanges)), 0
	for i, x := range exchanges {
		all[i] = &asked[i]
		asked[i] = Exchange{Selection: Selection(x.Selection), Decide: func(selected []Event) []Event {
			return ofFold(x.Decide(toFold(selected)))
		}}
	}
	if err := s.transacts().Transact(ctx, all...); err != nil {
		return err
	}
	for _, x := range all {
		kept += len(x.Kept)
	}
	events := make([]fold.Event, 0, kept) // of all exchanges
	for i, x := range exchanges {
		first := len(events)
		events = appendFold(events, all[i].Kept)
		x.Kept = events[first:len(events):len(events)]
	}
	return nil
}

func (s *hostStore) Key() any { return s.events }

// smallRun is how many events of a run are read at once from memory.
const smallRun = 32

func (s *hostStore) Few(runID string) bool {
	m, isMemory := s.events.(*Memory)
	return isMemory && m.events.Count(AggregateType, runID) <= smallRun
}

func toFold(events []Event) []fold.Event {
	return appendFold(make([]fold.Event, 0, len(events)), events)
}

func appendFold(all []fold.Event, events []Event) []fold.Event {
	for i := range events {
		all = append(all, fold.Event(events[i]))
	}
	return all
}

func ofFold(events []fold.Event) []Event {
	all := make([]Event, len(events))
	for i := range events {
		all[i] = Event(events[i])
	}
	return all
}

// nowhere is the store of a run that nothing guards, or that records nothing. It takes everything and keeps nothing, so
// that what the host does to the run has its effect without a special case.
type nowhere struct{}

func (nowhere) Append(context.Context, ...Event) error { return nil }

func (nowhere) Read(context.Context, string, string) ([]Event, error) { return nil, nil }

func (nowhere) Select(context.Context, Selection) ([]Event, error) { return nil, nil }

// Transact has each exchange find no event, and keep what it decides.
func (nowhere) Transact(_ context.Context, exchanges ...*Exchange) error {
	for _, x := range exchanges {
		x.Kept = x.Decide(nil)
	}
	return nil
}

// A Memory is an [EventStore], a [TransactionalStore] and a [LayerStore] that keeps what it is told in memory: for
// tests, and for hosts that do not need to know after a restart why a run ended. The zero value is ready; it must not
// be copied after its first use. Safe for concurrent use.
type Memory struct {
	events memory.Events
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

// Layers implements [LayerStore]. It looks at every event.
func (m *Memory) Layers(ctx context.Context, parent string) ([]string, error) {
	return m.events.Layers(ctx, AggregateType, parent)
}

var _ interface {
	TransactionalStore
	LayerStore
} = (*Memory)(nil)
