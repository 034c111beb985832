package storetest_test

import (
	"context"
	"runtime"
	"slices"
	"sync"

	"github.com/seed62658d38/watchdog"
)

// brokenPlace is a place whose stores have one flaw, and the rule that must find it.
type brokenPlace struct {
	flaw   string // completes "a store that …"
	breaks string
	place  func() func() (watchdog.EventStore, error)
}

func brokenPlaces() []brokenPlace {
	return []brokenPlace{
		{
			"loses its events until they are appended again", "events are stored when the store is opened again",
			place(flaws{hidesOnClose: true}),
		},
		{
			"forgets its IDs when it is closed", "an ID stored before the store was opened again is still taken",
			place(flaws{forgetsIDs: true}),
		},
		{
			"does not read what others wrote", "stores open at once see each other's events",
			place(flaws{ignoresOthers: true}),
		},
		{
			"knows only the IDs it wrote", oneIDOfStores,
			place(flaws{ignoresOtherIDs: true}),
		},
		{"locks only within itself", oneIDOfStores, place(flaws{locksItself: true})},
		{"locks only within itself for a transaction", noOverlapOfStores, placeOfTransactions},
	}
}

const (
	oneIDOfStores     = "stores open at once keep one event of an ID"
	noOverlapOfStores = "transactions of stores open at once do not overlap"
)

type flaws struct{ hidesOnClose, forgetsIDs, ignoresOthers, ignoresOtherIDs, locksItself bool }

// shared is what all stores of one place share.
type shared struct {
	flaws
	mu     sync.Mutex
	closed int // how often a store was closed
	rows   []row
}

type row struct {
	event  watchdog.Event
	closed int // of the place, when the row was written
	hidden bool
	by     map[*handle]bool
}

type handle struct {
	at *shared
	mu sync.Mutex // of this store
}

func place(f flaws) func() func() (watchdog.EventStore, error) {
	return func() func() (watchdog.EventStore, error) {
		at := &shared{flaws: f}
		return func() (watchdog.EventStore, error) { return &handle{at: at}, nil }
	}
}

func (h *handle) Append(_ context.Context, events ...watchdog.Event) error {
	if h.at.locksItself {
		h.keepUnlessKnown(events)
		return nil
	}
	h.at.mu.Lock()
	defer h.at.mu.Unlock()
	for _, e := range events {
		h.keep(e)
	}
	return nil
}

// keepUnlessKnown looks for each ID and then writes, and another store may write in between.
func (h *handle) keepUnlessKnown(events []watchdog.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range events {
		if !h.at.has(e.ID) {
			runtime.Gosched() // as does a store that waits for its disk
			h.at.write(row{event: e, closed: h.at.closed, by: map[*handle]bool{h: true}})
		}
	}
}

func (s *shared) has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.rows, func(r row) bool { return r.event.ID == id })
}

func (s *shared) write(r row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows = append(s.rows, r)
}

func (h *handle) keep(e watchdog.Event) {
	for i, r := range h.at.rows {
		if r.event.ID != e.ID {
			continue
		}
		if h.at.forgetsIDs && r.closed < h.at.closed {
			h.at.rows[i].event = e
		}
		if !h.at.ignoresOtherIDs || r.by[h] || r.closed < h.at.closed {
			r.by[h], h.at.rows[i].hidden = true, false
			return
		}
	}
	h.at.rows = append(h.at.rows, row{event: e, closed: h.at.closed, by: map[*handle]bool{h: true}})
}

func (h *handle) Read(_ context.Context, kind, id string) (events []watchdog.Event, _ error) {
	h.at.mu.Lock()
	defer h.at.mu.Unlock()
	for _, r := range h.at.rows {
		seen := !h.at.ignoresOthers || r.by[h] || r.closed < h.at.closed
		if seen && !r.hidden && r.event.AggregateType == kind && r.event.AggregateID == id {
			events = append(events, r.event)
		}
	}
	slices.SortFunc(events, watchdog.Event.Compare)
	return events, nil
}

func (h *handle) Close() error {
	h.at.mu.Lock()
	defer h.at.mu.Unlock()
	h.at.closed++
	for i := range h.at.rows {
		h.at.rows[i].hidden = h.at.hidesOnClose
	}
	return nil
}

// A lone store shares a Memory with others, and has a lock of its own for what comes between reading and writing.
type lone struct {
	*watchdog.Memory
	mu sync.Mutex
}

func placeOfTransactions() func() (watchdog.EventStore, error) {
	memory := new(watchdog.Memory)
	return func() (watchdog.EventStore, error) { return &lone{Memory: memory}, nil }
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
