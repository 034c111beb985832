package storetest_test

import (
	"context"
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
			"knows only the IDs it wrote", "stores open at once keep one event of an ID",
			place(flaws{ignoresOtherIDs: true}),
		},
	}
}

type flaws struct{ hidesOnClose, forgetsIDs, ignoresOthers, ignoresOtherIDs bool }

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

type handle struct{ at *shared }

func place(f flaws) func() func() (watchdog.EventStore, error) {
	return func() func() (watchdog.EventStore, error) {
		at := &shared{flaws: f}
		return func() (watchdog.EventStore, error) { return &handle{at}, nil }
	}
}

func (h *handle) Append(_ context.Context, events ...watchdog.Event) error {
	h.at.mu.Lock()
	defer h.at.mu.Unlock()
	for _, e := range events {
		h.keep(e)
	}
	return nil
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
