package storetest_test

import (
	"cmp"
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed62658d38/watchdog"
)

// sorts is a fault in the order of what is read.
func sorts(compare func(a, b event) int) fault {
	return after("Read", func(c *call) { slices.SortFunc(c.events, compare) })
}

// remembers is a fault in which a store keeps what it has read.
func remembers(read func(kept *sync.Map, c *call)) fault {
	return func() alteration {
		var kept sync.Map
		return after("Read", func(c *call) {
			if c.err == nil {
				read(&kept, c)
			}
		})()
	}
}

// A note is what a store keeps of an event with a new ID.
type note struct {
	event
	position int // in its batch
}

// notes is a fault in which a store keeps notes, and reads with them.
func notes(read func(of func(e event) note, c *call)) fault {
	return func() alteration {
		var notes sync.Map
		of := func(e event) note {
			kept, _ := notes.Load(e.ID)
			return kept.(note)
		}
		return both(before("Append", func(c *call) {
			for position, e := range c.events {
				notes.LoadOrStore(e.ID, note{e, position})
			}
		}), after("Read", func(c *call) { read(of, c) }))()
	}
}

// sortsBy is a fault in which a store orders by time and then by a key.
func sortsBy(key func(n note) int) fault {
	return notes(func(of func(e event) note, c *call) {
		slices.SortFunc(c.events, func(a, b event) int {
			return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(key(of(a)), key(of(b))))
		})
	})
}

// withPayloads returns copies of the events with other payloads.
func withPayloads(events []event, payload func(e event) json.RawMessage) []event {
	events = slices.Clone(events)
	each(events, func(e *event) { e.Payload = payload(*e) })
	return events
}

func ownPayload(e event) json.RawMessage { return slices.Clone(e.Payload) }

type aggregate struct{ kind, id string }

func matchingID(match func(asked, stored string) bool) fault {
	return matching(func(asked, stored aggregate) bool {
		return asked.kind == stored.kind && match(asked.id, stored.id)
	})
}

// matching is a fault in which the events of all matching aggregates are read.
func matching(match func(asked, stored aggregate) bool) fault {
	return func() alteration {
		var aggregates sync.Map
		return both(before("Append", func(c *call) {
			each(c.events, func(e *event) { aggregates.Store(aggregate{e.AggregateType, e.AggregateID}, true) })
		}), around("Read", func(c *call, _ func()) {
			for stored := range aggregates.Range {
				if s := stored.(aggregate); match(aggregate{c.kind, c.id}, s) {
					c.events = append(c.events, c.stored(s.kind, s.id)...)
				}
			}
			slices.SortFunc(c.events, watchdog.Event.Compare)
			c.err = c.ctx.Err()
		}))()
	}
}

var readFaults = []broken{
	{"orders by ID", "ordered by time", sorts(func(a, b event) int { return cmp.Compare(a.ID, b.ID) })},
	{"leaves events of one time in the order they came", "ordered by ID", sortsBy(func(n note) int { return n.position })},
	{"orders before it cuts off nanoseconds", "ordered by ID",
		sortsBy(func(n note) int { return n.Timestamp.Nanosecond() })},
	{"orders without regard to case", "ordered by ID", sorts(func(a, b event) int {
		return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(strings.ToLower(a.ID), strings.ToLower(b.ID)))
	})},
	{"does not find an aggregate without events", "an aggregate without events",
		after("Read", func(c *call) { setIf(c.err == nil && len(c.events) == 0, &c.err, errOwn) })},
	{"compares the ID only", "of one ID", matching(func(asked, stored aggregate) bool { return asked.id == stored.id })},
	{"finds a prefix", "a run and its layers",
		matchingID(func(asked, stored string) bool { return asked == stored || strings.HasPrefix(stored, asked+"/") })},
	{"takes the ID for a pattern", "is a pattern", matchingID(func(asked, stored string) bool {
		found, _ := path.Match(strings.NewReplacer("%", "*", "_", "?").Replace(asked), stored)
		return asked == stored || found && strings.ContainsAny(asked, "%_")
	})},
	{"folds the case of aggregate IDs", "case, accents and spaces", matchingID(strings.EqualFold)},
	{"pads aggregate IDs with spaces", "case, accents and spaces", matchingID(func(asked, stored string) bool {
		return strings.TrimRight(asked, " ") == strings.TrimRight(stored, " ")
	})},
	{"compares IDs as numbers", "quotes and other symbols", matchingID(func(asked, stored string) bool {
		x, notX := strconv.ParseFloat(asked, 64)
		y, notY := strconv.ParseFloat(stored, 64)
		return asked == stored || notX == nil && notY == nil && x == y
	})},
	{"drops quotes", "quotes and other symbols", matchingID(func(asked, stored string) bool {
		return strings.ReplaceAll(asked, "'", "") == strings.ReplaceAll(stored, "'", "")
	})},
	{"ignores the context of an append", "an append with a done context", ignoresContext("Append")},
	{"appends and then returns the context's error", "an append with a done context", looksAtContextLate("Append")},
	{"returns an error of its own when the context has ended", "an append with a done context", hidesContext("Append")},
	{"ignores the context of a read", "a read with a done context", ignoresContext("Read")},
	{"answers from a cache", "a read sees", remembers(func(kept *sync.Map, c *call) {
		cached, _ := kept.LoadOrStore(aggregate{c.kind, c.id}, withPayloads(c.events, ownPayload))
		c.events = withPayloads(cached.([]event), ownPayload)
	})},
	{"returns its own list", "what Read returned", remembers(func(kept *sync.Map, c *call) {
		own, _ := kept.LoadOrStore(aggregate{c.kind, c.id}, c.events)
		setIf(len(c.events) == len(own.([]event)), &c.events, own.([]event))
	})},
	{"returns its own payloads", "what Read returned", remembers(func(kept *sync.Map, c *call) {
		c.events = withPayloads(c.events, func(e event) json.RawMessage {
			shared, _ := kept.LoadOrStore(e.ID, e.Payload)
			return shared.(json.RawMessage)
		})
	})},
	{"keeps the appended payload without a copy", "what was appended belongs", notes(func(of func(e event) note, c *call) {
		c.events = withPayloads(c.events, func(e event) json.RawMessage { return ownPayload(of(e).event) })
	})},
}
