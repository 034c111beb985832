package storetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog"
)

func asksFor(change func(s *selection)) fault {
	return before("Select", func(c *call) { change(&c.s) })
}

// selectsMore is a fault in which other events are selected, too.
func selectsMore(from func(s selection) (kind, id string)) fault {
	return after("Select", func(c *call) {
		c.s.AggregateType, c.s.AggregateID = from(c.s)
		c.events = append(c.selected(c.s), c.events...)
	})
}

func decides(change func(c *call, selected []event, decided *[]event)) fault {
	return before("Transact", func(c *call) {
		for _, x := range c.all {
			decide := x.Decide
			x.Decide = func(selected []event) []event {
				decided := decide(selected)
				change(c, selected, &decided)
				return decided
			}
		}
	})
}

func layers(change func(c *call)) fault { return after("Layers", change) }

func tells(tell func(c *call, e event, told func(event))) fault {
	return before("Follow", func(c *call) {
		told := c.tell
		c.tell = func(e event) { tell(c, e, told) }
	})
}

// tellsFirst is a fault in which a follower is told of more before it is told of an event.
func tellsFirst(more func(c *call, e event) []event) fault {
	return tells(func(c *call, e event, told func(event)) {
		for _, one := range append(more(c, e), e) {
			told(one)
		}
	})
}

var ableFaults = []broken{
	{"selects from after Since on", "a selection has its IDs", asksFor(func(s *selection) {
		setIf(!s.Since.IsZero() && len(s.IDs) > 0, &s.Since, s.Since.Add(time.Microsecond))
	})},
	{"selects an event twice", "a selection has its IDs", after("Select", func(c *call) {
		twice := slices.IndexFunc(c.events, func(e event) bool {
			return slices.Contains(c.s.IDs, e.ID) && !c.s.Since.IsZero() && !e.Timestamp.Before(c.s.Since)
		})
		if twice >= 0 {
			c.events = slices.Insert(c.events, twice, c.events[twice])
		}
	})},
	{"takes no more than one ID", "a selection has its IDs",
		asksFor(func(s *selection) { setIf(len(s.IDs) > 1 && s.IDs[0] != "foreign", &s.IDs, s.IDs[:min(1, len(s.IDs))]) })},
	{"appends the IDs after the others", "a selection has its IDs", after("Select", func(c *call) {
		named := func(e event) bool { return slices.Contains(c.s.IDs, e.ID) }
		others := slices.DeleteFunc(slices.Clone(c.events), named)
		c.events = append(others, slices.DeleteFunc(c.events, func(e event) bool { return !named(e) })...)
	})},
	{"selects without payloads", "a selection has its IDs", after("Select", func(c *call) {
		each(c.events, func(e *event) { setIf(len(c.s.IDs) > 0, &e.Payload, []byte("{}")) })
	})},
	{"selects the latest of each type", "LatestOf selects", after("Select", func(c *call) {
		for _, one := range c.s.LatestOf {
			c.s.LatestOf = []string{one}
			c.events = append(c.events, c.selected(c.s)...)
		}
		slices.SortFunc(c.events, event.Compare)
		c.events = slices.CompactFunc(c.events, func(a, b event) bool { return a.ID == b.ID })
	})},
	{"selects the latest of all types", "LatestOf selects", asksFor(func(s *selection) {
		all := []string{watchdog.EventCancel, watchdog.EventResume, watchdog.EventExtend, "host.note"}
		setIf(len(s.LatestOf) > 0, &s.LatestOf, all)
	})},
	{"leaves the latest of one time to chance", "LatestOf selects", after("Select", func(c *call) {
		if len(c.s.LatestOf) > 0 && len(c.events) > 0 && c.events[0].Timestamp.Before(c.s.Since) {
			all := c.ofRun()
			c.events[0] = all[slices.IndexFunc(all, func(e event) bool {
				return e.Timestamp.Equal(c.events[0].Timestamp) && slices.Contains(c.s.LatestOf, e.Type)
			})]
		}
	})},
	{"leaves out from Since until Until without counting", "Until and Known",
		asksFor(func(s *selection) { setIf(s.Until.After(s.Since), &s.Since, s.Until) })},
	{"looks for IDs in all aggregates", "ID that another aggregate has", selectsMore(func(s selection) (kind, id string) {
		setIf(s.Since.IsZero(), &id, "run-2")
		return s.AggregateType, id
	})},
	{"looks for IDs in all types of aggregates", "an ID that another aggregate has",
		selectsMore(func(s selection) (kind, id string) { return "session", s.AggregateID })},
	{"takes no Since for the beginning", "a selection of nothing", asksFor(func(s *selection) {
		setIf(s.Since.IsZero() && len(s.IDs)+len(s.LatestOf) == 0, &s.Since, time.Unix(0, 0))
	})},
	{"selects the latest without Since", "a selection of nothing",
		asksFor(func(s *selection) { setIf(s.Since.IsZero() && len(s.LatestOf) > 0, &s.Since, time.Unix(0, 0)) })},
	{"ignores the context of a select", "a select with a done context", ignoresContext("Select")},
	{"decides with the whole aggregate", "an exchange decides", before("Transact", func(c *call) {
		for _, x := range c.all {
			x.Since = x.Since.AddDate(-1, 0, 0)
		}
	})},
	{"stores only the first of the events", "an exchange decides", decides(func(_ *call, _ []event, all *[]event) {
		setIf(len(*all) == 2 && (*all)[0].ID == "d", all, (*all)[:min(1, len(*all))])
	})},
	{"selects for all exchanges before it appends", "in their order", before("Transact", func(c *call) {
		for _, x := range c.all[min(1, len(c.all)):] {
			before, decide := c.selected(x.Selection), x.Decide
			x.Decide = func([]event) []event { return decide(before) }
		}
	})},
	{"has a transaction for each exchange", "a transaction with an invalid event", after("Transact", func(c *call) {
		if errors.Is(c.err, watchdog.ErrInvalid) && len(c.ofRun()) > 0 {
			_ = c.m.Transact(context.Background(), c.all[0])
		}
	})},
	{"returns an error of its own for an invalid event", "a transaction with an invalid event",
		after("Transact", func(c *call) { c.err = own(c.err) })},
	{"keeps the IDs of a transaction that it took back", "a transaction with an invalid event", func() alteration {
		var undone atomic.Bool
		return both(after("Transact", func(c *call) { undone.Store(errors.Is(c.err, watchdog.ErrInvalid)) }),
			fails("Append", nil, func(*call) bool { return undone.Load() }))()
	}},
	{"returns what was decided, and not what is stored", "Kept is what is stored",
		both(decides(func(c *call, _ []event, decided *[]event) { c.events = *decided }), after("Transact", func(c *call) {
			for _, x := range c.all {
				x.Kept = c.events
			}
		}))},
	{"returns only what is new", "Kept is what is stored", around("Transact", func(c *call, next func()) {
		before := c.ofRun()
		next()
		for _, x := range c.all {
			x.Kept = slices.DeleteFunc(x.Kept, func(e event) bool {
				return slices.ContainsFunc(before, func(b event) bool { return b.ID == e.ID })
			})
		}
	})},
	{"now and then decides with what another transaction has just changed", "transactions of one aggregate",
		decides(func(_ *call, selected []event, decided *[]event) {
			if len(selected) == 40 && len(*decided) == 1 {
				(*decided)[0].ID = selected[39].ID
			}
		})},
	{"ignores the context of a transaction", "a transaction with a done context", ignoresContext("Transact")},
	{"stores and then returns the context's error", "a transaction with a done context", looksAtContextLate("Transact")},
	{"commits what it has when the context ends", "a context that ends during",
		both(after("Transact", func(c *call) { c.err = errors.Join(c.err, c.ctx.Err()) }),
			decides(func(c *call, _ []event, decided *[]event) { setIf(c.ctx.Err() != nil, decided, nil) }))},
	{"lists layers in the order in which they came", "layers are the aggregates",
		layers(func(c *call) { slices.Reverse(c.layers) })},
	{"lists a layer for each of its events", "layers are the aggregates", layers(func(c *call) {
		if at := slices.Index(c.layers, "a"); at >= 0 {
			c.layers = slices.Insert(c.layers, at, "a")
		}
	})},
	{"folds the case of parents", "layers are the aggregates", layers(func(c *call) {
		if upper := strings.ToUpper(c.id); upper != c.id {
			more, _ := c.m.Layers(context.Background(), upper)
			c.layers = slices.Sorted(slices.Values(append(c.layers, more...)))
		}
	})},
	{"finds the host's aggregates", "layers are the aggregates", layers(func(c *call) {
		if len(c.layers) == 3 {
			c.layers = slices.Insert(c.layers, 2, "hosts")
		}
	})},
	{"ignores the context of a query for layers", "a query for layers with a done context", ignoresContext("Layers")},
	{"tells of an event again", "a follower of all runs", tellsFirst(func(_ *call, e event) []event {
		return slices.DeleteFunc([]event{e}, func(e event) bool { return e.AggregateID != "run-2" })
	})},
	{"tells of what was stored before", "a follower of all runs", tellsFirst(func(c *call, _ event) []event {
		return slices.DeleteFunc(c.ofRun(), func(e event) bool { return e.ID != "before" })
	})},
	{"tells of events without their payloads", "a transaction stores", tells(func(_ *call, e event, told func(event)) {
		setIf(e.ID == "b" && e.AggregateID == "run-1", &e.Payload, []byte("{}"))
		told(e)
	})},
	{"tells of a run's layers, too", "a follower of one run", before("Follow", func(c *call) {
		run, told := c.id, c.tell
		c.id, c.tell = "", func(e event) {
			if run == "" || e.AggregateID == run || strings.HasPrefix(e.AggregateID, run+"/") {
				told(e)
			}
		}
	})},
	{"tells of the host's aggregates", "a follower of one run",
		tellsFirst(func(c *call, _ event) []event { return c.stored("session", "run-1") })},
	{"holds its only connection while it tells", "may use the store", func() alteration {
		var telling atomic.Bool
		return both(tells(func(_ *call, e event, told func(event)) {
			telling.Store(true)
			told(e)
			telling.Store(false)
		}), fails("Append", errOwn, func(c *call) bool { return telling.Load() && c.events[0].ID == "b" }))()
	}},
	{"returns nil when the context ends", "following ends", after("Follow", func(c *call) { c.err = nil })},
	{"leaves the goroutine that follows", "following ends", func() alteration {
		closed := make(chan struct{})
		return both(before("Follow", func(*call) { go func() { <-closed }() }),
			before("Close", func(*call) { close(closed) }))()
	}},
}
