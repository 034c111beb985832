package storetest_test

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/contract/contracttest"
)

const (
	oneIDOfStores     = "open at once keep one event"
	noOverlapOfStores = "open at once do not overlap"
)

type opener = func() (watchdog.EventStore, error)

var placeFaults = []contracttest.Broken[opener]{
	{"loses its events until they are appended again", "stored when the store is opened again",
		place(placeFlaws{hidesOnClose: true})},
	{"forgets its IDs when it is closed", "before the store was opened again", place(placeFlaws{forgetsIDs: true})},
	{"does not read what others wrote", "see each other's events", place(placeFlaws{ignoresOthers: true})},
	{"knows only the IDs it wrote", oneIDOfStores, place(placeFlaws{ignoresOtherIDs: true})},
	{"locks only within itself", oneIDOfStores, place(placeFlaws{locksItself: true})},
	{"locks only within itself for a transaction", noOverlapOfStores, placeOfTransactions},
}

type placeFlaws struct{ hidesOnClose, forgetsIDs, ignoresOthers, ignoresOtherIDs, locksItself bool }

// shared is what all stores of one place share.
type shared struct {
	placeFlaws
	writing sync.Mutex // while an append looks for IDs and then writes
	mu      sync.Mutex
	closed  int // how often a store was closed
	rows    []*row
}

type row struct {
	event
	closed int // of the place, when the row was written
	hidden bool
	by     map[*handle]bool
}

// A handle is a store of a place.
type handle struct {
	*shared
	writing sync.Locker
}

func place(f placeFlaws) func() opener {
	return func() opener {
		at := &shared{placeFlaws: f}
		return func() (watchdog.EventStore, error) {
			if f.locksItself {
				return &handle{at, new(sync.Mutex)}, nil
			}
			return &handle{at, &at.writing}, nil
		}
	}
}

func (h *handle) Append(_ context.Context, events ...event) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	for _, e := range events {
		if !h.knows(e) {
			runtime.Gosched() // as does a store that waits for its disk
			h.write(e)
		}
	}
	return nil
}

func (h *handle) knows(e event) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.rows {
		if r.ID != e.ID {
			continue
		}
		if h.forgetsIDs && r.closed < h.closed {
			r.event = e
		}
		if !h.ignoresOtherIDs || h.has(r) {
			r.by[h], r.hidden = true, false
			return true
		}
	}
	return false
}

// has reports whether the store wrote the row, or was opened after it.
func (h *handle) has(r *row) bool { return r.by[h] || r.closed < h.closed }

func (h *handle) write(e event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.rows = append(h.rows, &row{event: e, closed: h.closed, by: map[*handle]bool{h: true}})
}

func (h *handle) Read(_ context.Context, kind, id string) (events []event, _ error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.rows {
		if (!h.ignoresOthers || h.has(r)) && !r.hidden && r.AggregateType == kind && r.AggregateID == id {
			events = append(events, r.event)
		}
	}
	slices.SortFunc(events, event.Compare)
	return events, nil
}

func (h *handle) Close() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed++
	for _, r := range h.rows {
		r.hidden = h.hidesOnClose
	}
	return nil
}

// placeOfTransactions returns a place whose stores each have a lock of their own for a transaction.
func placeOfTransactions() opener {
	memory := new(watchdog.Memory)
	return func() (watchdog.EventStore, error) { return &lone{Memory: memory}, nil }
}

type lone struct {
	*watchdog.Memory
	mu sync.Mutex
}

func (l *lone) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, x := range exchanges {
		selected, err := l.Select(ctx, x.Selection)
		if err != nil {
			return err
		}
		x.Kept = x.Decide(selected)
		if err := l.Append(ctx, x.Kept...); err != nil {
			return err
		}
	}
	return nil
}
