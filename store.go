package watchdog

import (
	"context"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
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
	if len(events) == 0 {
		return nil
	}
	return appendFold(make([]fold.Event, 0, len(events)), events)
}

func appendFold(all []fold.Event, events []Event) []fold.Event {
	for i := range events {
		all = append(all, fold.Event(events[i]))
	}
	return all
}

func ofFold(events []fold.Event) []Event {
	if len(events) == 0 {
		return nil
	}
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
