// Package journaltest has a store for the tests of what records: it keeps events in memory, and fails as it is told.
//
// It is no example of a store.
package journaltest

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/journal"
)

// ErrFull is an error of a store that does not say why.
var ErrFull = errors.New("disk full")

// A Call is one of a store: append, read, select or transact.
type Call struct {
	Kind   string
	Runs   []string      // that it is about
	Events []event.Event // that are to be kept
	At     time.Duration // since Began
}

// A Fault happens before a call is made, which fails with its error.
type Fault = func(ctx context.Context, c Call) error

// A Store is an [event.TransactionalStore]. Its methods may be called concurrently.
type Store struct {
	Steps  bool      // it cannot transact
	Sparse bool      // it says that runs have next to no events
	Keeps  bool      // what an exchange decides is a call of its own, "keep", in which the transaction can fail
	Began  time.Time // from which calls are counted

	kept  event.Memory
	mu    sync.Mutex
	fault Fault
	asked []Call
}

// FailWith has a fault happen before each call, or none.
func (s *Store) FailWith(fault Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = fault
}

// Refuse has calls fail with [ErrFull] that are about one of the runs, all if none is named.
func (s *Store) Refuse(runs ...string) {
	s.FailWith(func(_ context.Context, c Call) error {
		if len(runs) == 0 || slices.ContainsFunc(runs, func(run string) bool { return slices.Contains(c.Runs, run) }) {
			return ErrFull
		}
		return nil
	})
}

// Calls are those that were made since it was called last.
func (s *Store) Calls() (asked []Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, s.asked = s.asked, nil
	return asked
}

// Kinds are those of [Store.Calls].
func (s *Store) Kinds() (kinds []string) {
	for _, c := range s.Calls() {
		kinds = append(kinds, c.Kind)
	}
	return kinds
}

// All are the events of a run. It is no call.
func (s *Store) All(runID string) []event.Event {
	events, _ := s.kept.Read(context.Background(), event.AggregateType, runID)
	return events
}

func (s *Store) ask(ctx context.Context, c Call) error {
	s.mu.Lock()
	c.Runs, c.At = slices.Compact(c.Runs), time.Since(s.Began)
	s.asked = append(s.asked, c)
	fault := s.fault
	s.mu.Unlock()
	if fault == nil {
		return nil
	}
	return fault(ctx, c)
}

// Journal is the store as journals have it.
func (s *Store) Journal() journal.Store {
	if s.Steps {
		return journal.StoreOf(plain{s})
	}
	return journal.StoreOf(s)
}

// plain is a store that cannot transact.
type plain struct{ event.Store }

// Len returns how many events an aggregate has, as far as it is to be told.
func (s *Store) Len(aggregateType, aggregateID string) int {
	if s.Sparse {
		return s.kept.Len(aggregateType, aggregateID)
	}
	return math.MaxInt
}

// Append implements [event.TransactionalStore]. It keeps the events also if the caller does not wait any more.
func (s *Store) Append(ctx context.Context, events ...event.Event) error {
	var runs []string
	for _, e := range events {
		runs = append(runs, e.AggregateID)
	}
	if err := s.ask(ctx, Call{Kind: "append", Runs: runs, Events: events}); err != nil {
		return err
	}
	return s.kept.Append(context.WithoutCancel(ctx), events...)
}

// Read implements [event.Store].
func (s *Store) Read(ctx context.Context, _, runID string) ([]event.Event, error) {
	if err := s.ask(ctx, Call{Kind: "read", Runs: []string{runID}}); err != nil {
		return nil, err
	}
	return s.All(runID), nil
}

// Select implements [event.TransactionalStore].
func (s *Store) Select(ctx context.Context, by event.Selection) ([]event.Event, error) {
	if err := s.ask(ctx, Call{Kind: "select", Runs: []string{by.AggregateID}}); err != nil {
		return nil, err
	}
	return s.kept.Select(context.WithoutCancel(ctx), by)
}

// Transact implements [event.TransactionalStore].
func (s *Store) Transact(ctx context.Context, exchanges ...*event.Exchange) error {
	var runs []string
	for _, x := range exchanges {
		runs = append(runs, x.AggregateID)
	}
	if err := s.ask(ctx, Call{Kind: "transact", Runs: runs}); err != nil {
		return err
	}
	var refused error
	asked := make([]*event.Exchange, len(exchanges))
	for i, x := range exchanges {
		asked[i] = &event.Exchange{Selection: x.Selection, Decide: func(selected []event.Event) []event.Event {
			events := x.Decide(selected)
			if s.Keeps && refused == nil {
				refused = s.ask(ctx, Call{Kind: "keep", Runs: []string{x.AggregateID}, Events: events})
			}
			if refused != nil {
				return []event.Event{{}} // which is invalid, so that nothing is kept
			}
			return events
		}}
	}
	err := s.kept.Transact(context.WithoutCancel(ctx), asked...)
	if refused != nil {
		return refused
	}
	for i, x := range exchanges {
		x.Kept = asked[i].Kept
	}
	return err
}
