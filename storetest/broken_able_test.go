package storetest_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
)

var selectionFaults = brokenEvents{
	{"selects from after Since on", "a selection has its IDs and all from Since on, each once and as Read returns them",
		asksFor(func(s *selection) {
			if !s.Since.IsZero() && len(s.IDs) > 0 {
				s.Since = s.Since.Add(time.Microsecond)
			}
		})},
	{"selects an event twice", "a selection has its IDs and all from Since on, each once and as Read returns them",
		selectsChanged(func(_ *memory, s selection, selected []event) []event {
			for i, e := range selected {
				if slices.Contains(s.IDs, e.ID) && !s.Since.IsZero() && !e.Timestamp.Before(s.Since) {
					return slices.Insert(selected, i, e)
				}
			}
			return selected
		})},
	{"takes no more than one ID", "a selection has its IDs and all from Since on, each once and as Read returns them",
		asksFor(func(s *selection) {
			if len(s.IDs) > 1 && s.IDs[0] != "foreign" {
				s.IDs = s.IDs[:1]
			}
		})},
	{"appends the IDs after the others",
		"a selection has its IDs and all from Since on, each once and as Read returns them",
		selectsChanged(func(_ *memory, s selection, selected []event) []event {
			named := func(e event) bool { return slices.Contains(s.IDs, e.ID) }
			others := slices.DeleteFunc(slices.Clone(selected), named)
			return append(others, slices.DeleteFunc(selected, func(e event) bool { return !named(e) })...)
		})},
	{"selects without payloads", "a selection has its IDs and all from Since on, each once and as Read returns them",
		selectsChanged(func(_ *memory, s selection, selected []event) []event {
			for i := range selected {
				if len(s.IDs) > 0 {
					selected[i].Payload = []byte("{}")
				}
			}
			return selected
		})},
	{"selects the latest of each type", "LatestOf selects the last event of these types before Since",
		selectsChanged(func(m *memory, s selection, selected []event) []event {
			for _, one := range s.LatestOf {
				s.LatestOf = []string{one}
				more, _ := m.Select(context.Background(), s)
				selected = append(selected, more...)
			}
			slices.SortFunc(selected, event.Compare)
			return slices.CompactFunc(selected, func(a, b event) bool { return a.ID == b.ID })
		})},
	{"selects the latest of all types", "LatestOf selects the last event of these types before Since",
		asksFor(func(s *selection) {
			if len(s.LatestOf) > 0 {
				s.LatestOf = []string{watchdog.EventCancel, watchdog.EventResume, watchdog.EventExtend, "host.note"}
			}
		})},
	{"leaves the latest of one time to chance", "LatestOf selects the last event of these types before Since",
		selectsChanged(func(m *memory, s selection, selected []event) []event {
			if len(s.LatestOf) > 0 && len(selected) > 0 && selected[0].Timestamp.Before(s.Since) {
				all, _ := m.Read(context.Background(), s.AggregateType, s.AggregateID)
				selected[0] = all[slices.IndexFunc(all, func(e event) bool {
					return e.Timestamp.Equal(selected[0].Timestamp) && slices.Contains(s.LatestOf, e.Type)
				})]
			}
			return selected
		})},
	{"leaves out from Since until Until without counting", "Until and Known leave out only what the caller knows",
		asksFor(func(s *selection) {
			if s.Until.After(s.Since) {
				s.Since = s.Until
			}
		})},
	{"looks for IDs in all aggregates", "an ID that another aggregate has is not selected",
		selectsChanged(func(m *memory, s selection, selected []event) []event {
			if s.AggregateID = "run-2"; s.Since.IsZero() {
				foreign, _ := m.Select(context.Background(), s)
				selected = append(foreign, selected...)
			}
			return selected
		})},
	{"looks for IDs in all types of aggregates", "an ID that another aggregate has is not selected",
		selectsChanged(func(m *memory, s selection, selected []event) []event {
			s.AggregateType = "session"
			foreign, _ := m.Select(context.Background(), s)
			return append(foreign, selected...)
		})},
	{"takes no Since for the beginning", "a selection of nothing is empty, and no error",
		asksFor(func(s *selection) {
			if s.Since.IsZero() && len(s.IDs)+len(s.LatestOf) == 0 {
				s.Since = time.Unix(0, 0)
			}
		})},
	{"selects the latest without Since", "a selection of nothing is empty, and no error",
		asksFor(func(s *selection) {
			if s.Since.IsZero() && len(s.LatestOf) > 0 {
				s.Since = time.Unix(0, 0)
			}
		})},
	{"ignores the context of a select", "a select with a done context returns the context's error",
		selecting(func(m *memory, ctx context.Context, s selection) ([]event, error) {
			return m.Select(context.WithoutCancel(ctx), s)
		})},
}

// selecting returns a store that selects in another way.
func selecting(how func(m *memory, ctx context.Context, s selection) ([]event, error)) func() watchdog.EventStore {
	return able(func(a *altered) {
		a.choose = func(ctx context.Context, s selection) ([]event, error) { return how(&a.memory, ctx, s) }
	})
}

// selectsChanged returns a store that changes what it selects.
func selectsChanged(change func(m *memory, s selection, selected []event) []event) func() watchdog.EventStore {
	return selecting(func(m *memory, ctx context.Context, s selection) ([]event, error) {
		selected, err := m.Select(ctx, s)
		return change(m, s, selected), err
	})
}

// asksFor returns a store that selects something else.
func asksFor(change func(s *selection)) func() watchdog.EventStore {
	return selecting(func(m *memory, ctx context.Context, s selection) ([]event, error) {
		change(&s)
		return m.Select(ctx, s)
	})
}

var transactionFaults = brokenEvents{
	{"decides with the whole aggregate", "an exchange decides with what it selects, and what it decides is stored",
		transacting(func(m *memory, all exchanges, do func() error) error {
			for _, x := range all {
				x.Since = x.Since.AddDate(-1, 0, 0)
			}
			return do()
		})},
	{"stores only the first of the events", "an exchange decides with what it selects, and what it decides is stored",
		decidesChanged(func(_, decided []event) []event {
			if len(decided) == 2 && decided[0].ID == "d" {
				decided = decided[:1]
			}
			return decided
		})},
	{"selects for all exchanges before it appends", "exchanges are carried out in their order",
		transacting(func(m *memory, all exchanges, do func() error) error {
			for _, x := range all[min(1, len(all)):] {
				before, _ := m.Select(context.Background(), x.Selection)
				decide := x.Decide
				x.Decide = func([]event) []event { return decide(before) }
			}
			return do()
		})},
	{"has a transaction for each exchange",
		"a transaction with an invalid event in a later exchange stores nothing, and returns ErrInvalid",
		transacting(func(m *memory, all exchanges, do func() error) error {
			err := do()
			stored, _ := m.Read(context.Background(), watchdog.AggregateType, "run-1")
			if errors.Is(err, watchdog.ErrInvalid) && len(stored) > 0 {
				_ = m.Transact(context.Background(), all[0])
			}
			return err
		})},
	{"returns an error of its own for an invalid event",
		"a transaction with an invalid event in a later exchange stores nothing, and returns ErrInvalid",
		transacting(func(
			_ *memory, _ exchanges, do func() error,
		) error {
			return own(do())
		})},
	{"keeps the IDs of a transaction that it took back",
		"a transaction with an invalid event in a later exchange stores nothing, and returns ErrInvalid",
		able(func(a *altered) {
			var undone atomic.Bool
			a.transact = func(ctx context.Context, all ...*watchdog.Exchange) error {
				err := a.memory.Transact(ctx, all...)
				undone.Store(errors.Is(err, watchdog.ErrInvalid))
				return err
			}
			a.append = func(ctx context.Context, events ...event) error {
				if undone.Load() {
					return nil
				}
				return a.memory.Append(ctx, events...)
			}
		})},
	{"returns what was decided, and not what is stored", "Kept is what is stored under the IDs that Decide returned",
		transacting(func(
			_ *memory, all exchanges, do func() error,
		) error {
			var decided [][]event
			redecide(all, func(_, events []event) []event {
				decided = append(decided, events)
				return events
			})
			err := do()
			for i := range decided {
				all[i].Kept = decided[i]
			}
			return err
		})},
	{"returns only what is new", "Kept is what is stored under the IDs that Decide returned",
		transacting(func(m *memory, all exchanges, do func() error) error {
			before, _ := m.Read(context.Background(), watchdog.AggregateType, "run-1")
			err := do()
			for _, x := range all {
				x.Kept = slices.DeleteFunc(x.Kept, func(e event) bool {
					return slices.ContainsFunc(before, func(b event) bool { return b.ID == e.ID })
				})
			}
			return err
		})},
	{"now and then decides with what another transaction has just changed", "transactions of one aggregate do not overlap",
		decidesChanged(func(
			selected, decided []event,
		) []event {
			if len(selected) == 40 && len(decided) == 1 {
				decided[0].ID = selected[39].ID
			}
			return decided
		})},
	{"ignores the context of a transaction",
		"a transaction with a done context stores nothing and returns the context's error",
		able(func(a *altered) {
			a.transact = func(ctx context.Context, all ...*watchdog.Exchange) error {
				return a.memory.Transact(context.WithoutCancel(ctx), all...)
			}
		})},
	{"stores and then returns the context's error",
		"a transaction with a done context stores nothing and returns the context's error",
		able(func(a *altered) {
			a.transact = func(ctx context.Context, all ...*watchdog.Exchange) error {
				return errors.Join(a.memory.Transact(context.WithoutCancel(ctx), all...), ctx.Err())
			}
		})},
	{"commits what it has when the context ends", "a context that ends during a transaction leaves all of it or nothing",
		able(func(a *altered) {
			a.transact = func(ctx context.Context, all ...*watchdog.Exchange) error {
				redecide(all, func(_, decided []event) []event {
					if ctx.Err() != nil {
						return nil
					}
					return decided
				})
				return errors.Join(a.memory.Transact(ctx, all...), ctx.Err())
			}
		})},
}

// transacting returns a store that makes a transaction in another way.
func transacting(how func(m *memory, all exchanges, do func() error) error) func() watchdog.EventStore {
	return able(func(a *altered) {
		a.transact = func(ctx context.Context, all ...*watchdog.Exchange) error {
			return how(&a.memory, all, func() error { return a.memory.Transact(ctx, all...) })
		}
	})
}

// decidesChanged returns a store that appends something else than what was decided.
func decidesChanged(change func(selected, decided []event) []event) func() watchdog.EventStore {
	return transacting(func(_ *memory, all exchanges, do func() error) error {
		redecide(all, change)
		return do()
	})
}

// redecide has exchanges change what they decide.
func redecide(all exchanges, change func(selected, decided []event) []event) {
	for _, x := range all {
		decide := x.Decide
		x.Decide = func(selected []event) []event { return change(selected, decide(selected)) }
	}
}
