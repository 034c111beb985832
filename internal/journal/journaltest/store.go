// Package journaltest has a store for the tests of what records: it keeps events in memory, and fails as it is told.
//
// It is no example of a store, and does not check what it is asked to keep.
package journaltest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/journal"
	"github.com/seed62658d38/watchdog/internal/memory"
	"github.com/seed62658d38/watchdog/internal/record"
)

// ErrFull is an error of a store that does not say why.
var ErrFull = errors.New("disk full")

// A Call is one of a store: append, read, select or transact.
type Call struct {
	Kind   string
	Runs   []string      // that it is about
	Events []fold.Event  // that are to be kept
	At     time.Duration // since Began
}

// A Fault happens before a call is made, which fails with its error.
type Fault = func(ctx context.Context, c Call) error

// A Store is a [journal.Store]. Its methods may be called concurrently.
type Store struct {
	Steps  bool      // it cannot transact
	Sparse bool      // it says that runs have next to no events
	Keeps  bool      // what an exchange decides is a call of its own, "keep", in which the transaction can fail
	Began  time.Time // from which calls are counted

	kept  memory.Events
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
func (s *Store) All(runID string) []fold.Event {
	t, _ := s.kept.Begin(context.Background(), 0)
	defer t.End()
	return copies(t.All(record.AggregateType, runID))
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

// Transacts implements [journal.Store].
func (s *Store) Transacts() bool { return !s.Steps }

// Key implements [journal.Store].
func (s *Store) Key() any { return s }

// Few implements [journal.Store].
func (s *Store) Few(string) bool { return s.Sparse }

// Append implements [journal.Store]. It keeps the events also if the caller does not wait any more.
func (s *Store) Append(ctx context.Context, events ...fold.Event) error {
	var runs []string
	for _, e := range events {
		runs = append(runs, e.AggregateID)
	}
	if err := s.ask(ctx, Call{Kind: "append", Runs: runs, Events: events}); err != nil {
		return err
	}
	t, err := s.kept.Begin(context.WithoutCancel(ctx), len(events))
	if err != nil {
		return err
	}
	defer t.End()
	for i := range events {
		t.Keep(&events[i])
	}
	t.Commit()
	return nil
}

// Read implements [journal.Store].
func (s *Store) Read(ctx context.Context, runID string) ([]fold.Event, error) {
	if err := s.ask(ctx, Call{Kind: "read", Runs: []string{runID}}); err != nil {
		return nil, err
	}
	return s.All(runID), nil
}

// Select implements [journal.Store].
func (s *Store) Select(ctx context.Context, by fold.Selection) ([]fold.Event, error) {
	if err := s.ask(ctx, Call{Kind: "select", Runs: []string{by.AggregateID}}); err != nil {
		return nil, err
	}
	t, _ := s.kept.Begin(context.WithoutCancel(ctx), 0)
	defer t.End()
	return copies(t.Select(nil, by)), nil
}

// Transact implements [journal.Store].
func (s *Store) Transact(ctx context.Context, exchanges ...*journal.Exchange) error {
	var runs []string
	for _, x := range exchanges {
		runs = append(runs, x.AggregateID)
	}
	if err := s.ask(ctx, Call{Kind: "transact", Runs: runs}); err != nil {
		return err
	}
	t, _ := s.kept.Begin(context.WithoutCancel(ctx), 0)
	defer t.End()
	kept := make([][]fold.Event, len(exchanges))
	for i, x := range exchanges {
		events := x.Decide(copies(t.Select(nil, x.Selection)))
		if s.Keeps {
			if err := s.ask(ctx, Call{Kind: "keep", Runs: []string{x.AggregateID}, Events: events}); err != nil {
				return err
			}
		}
		for j := range events {
			kept[i] = append(kept[i], *t.Keep(&events[j]))
		}
	}
	for i, x := range exchanges {
		x.Kept = kept[i]
	}
	t.Commit()
	return nil
}

func copies(events []*fold.Event) (all []fold.Event) {
	for _, e := range events {
		all = append(all, *e)
	}
	return all
}
