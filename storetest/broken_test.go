package storetest_test

import (
	"context"
	"errors"
	"slices"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract/contracttest"
)

type (
	event     = watchdog.Event
	selection = watchdog.Selection
	exchanges = []*watchdog.Exchange
	memory    = watchdog.Memory
)

// Stores with one flaw each.
type (
	broken[S any] = contracttest.Broken[S]
	brokenEvents  = []broken[watchdog.EventStore]
	brokenSpends  = []broken[watchdog.SpendStore]
)

// errOwn is an error of a store that does not say what a rule wants to know.
var errOwn = errors.New("constraint failed")

// own returns the error, or one of its own in the place of ErrInvalid.
func own(err error) error {
	if errors.Is(err, watchdog.ErrInvalid) {
		return errOwn
	}
	return err
}

// altered is a Memory whose calls can be replaced.
type altered struct {
	memory
	append   func(ctx context.Context, events ...event) error
	read     func(ctx context.Context, kind, id string) ([]event, error)
	choose   func(ctx context.Context, s selection) ([]event, error)
	transact func(ctx context.Context, all ...*watchdog.Exchange) error
	layers   func(ctx context.Context, parent string) ([]string, error)
	follow   func(ctx context.Context, id string, ready func(), told func(event)) error
	close    func() error
}

// able returns a store with all optional interfaces in which something was replaced.
func able(replace func(a *altered)) func() watchdog.EventStore {
	return func() watchdog.EventStore {
		a := &altered{close: func() error { return nil }}
		a.append, a.read, a.choose, a.transact = a.memory.Append, a.memory.Read, a.memory.Select, a.memory.Transact
		a.layers, a.follow = a.memory.Layers, a.memory.Follow
		replace(a)
		return a
	}
}

// plain is able without an optional interface.
func plain(replace func(a *altered)) func() watchdog.EventStore {
	return func() watchdog.EventStore { return struct{ watchdog.EventStore }{able(replace)()} }
}

func (a *altered) Append(ctx context.Context, events ...event) error { return a.append(ctx, events...) }

func (a *altered) Read(ctx context.Context, kind, id string) ([]event, error) {
	return a.read(ctx, kind, id)
}

func (a *altered) Select(ctx context.Context, s selection) ([]event, error) { return a.choose(ctx, s) }

func (a *altered) Transact(ctx context.Context, all ...*watchdog.Exchange) error {
	return a.transact(ctx, all...)
}

func (a *altered) Layers(ctx context.Context, parent string) ([]string, error) {
	return a.layers(ctx, parent)
}

func (a *altered) Follow(ctx context.Context, id string, ready func(), told func(event)) error {
	return a.follow(ctx, id, ready, told)
}

func (a *altered) Close() error { return a.close() }

// appends returns a store that appends in another way.
func appends(how func(m *memory, ctx context.Context, events []event) error) func() watchdog.EventStore {
	return plain(func(a *altered) {
		a.append = func(ctx context.Context, events ...event) error { return how(&a.memory, ctx, slices.Clone(events)) }
	})
}

// writes returns a store that appends something else.
func writes(instead func(m *memory, events []event) []event) func() watchdog.EventStore {
	return appends(func(m *memory, ctx context.Context, events []event) error {
		return m.Append(ctx, instead(m, events)...)
	})
}

// writesChanged returns a store that changes each event before it stores it.
func writesChanged(change func(e *event)) func() watchdog.EventStore {
	return writes(func(_ *memory, events []event) []event { return changed(events, change) })
}

func changed(events []event, change func(e *event)) []event {
	for i := range events {
		change(&events[i])
	}
	return events
}

// refuses returns a store that fails for some batches.
func refuses(err error, which func(events []event) bool) func() watchdog.EventStore {
	return appends(func(m *memory, ctx context.Context, events []event) error {
		if which(events) {
			return err
		}
		return m.Append(ctx, events...)
	})
}

// reads returns a store that changes what it has read.
func reads(change func(events []event) []event) func() watchdog.EventStore {
	return plain(func(a *altered) {
		a.read = func(ctx context.Context, kind, id string) ([]event, error) {
			events, err := a.memory.Read(ctx, kind, id)
			return change(events), err
		}
	})
}

// readsChanged returns a store that changes each event that it reads.
func readsChanged(change func(e *event)) func() watchdog.EventStore {
	return reads(func(events []event) []event { return changed(events, change) })
}

// sorts returns a store that orders what it reads in another way.
func sorts(compare func(a, b event) int) func() watchdog.EventStore {
	return reads(func(events []event) []event {
		slices.SortFunc(events, compare)
		return events
	})
}
