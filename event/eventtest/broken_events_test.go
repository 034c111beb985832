package eventtest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"path"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/contract/contracttest"
)

func writes(change func(e *event.Event)) fault {
	return before("Append", func(c *call) { each(c.events, change) })
}

func refuses(err error, which func(e event.Event) bool) fault {
	return fails("Append", err, func(c *call) bool { return slices.ContainsFunc(c.events, which) })
}

func drops(which func(c *call) bool) fault {
	return before("Append", func(c *call) { setIf(len(c.events) > 0 && which(c), &c.events, nil) })
}

// writesKeys changes the keys of payloads, and decodes their values into V.
func writesKeys[V any](change func(keys map[string]V)) fault {
	return writes(func(e *event.Event) {
		var keys map[string]V
		if json.Unmarshal(e.Payload, &keys) == nil && keys != nil {
			change(keys)
			e.Payload, _ = json.Marshal(keys)
		}
	})
}

func (c *call) beside() []event.Event {
	return c.stored(c.events[0].AggregateType, c.events[0].AggregateID)
}

// overlay changes what a store reads from its Memory.
type overlay struct {
	mu       sync.Mutex
	appended map[string][]event.Event // by ID
	replaced map[string]event.Event
	added    []event.Event
}

// overlaid is a fault in some appends of a single event whose ID is taken.
func overlaid(which func(o *overlay, first, again event.Event) bool, do func(o *overlay, again event.Event) error) fault {
	return func() alteration {
		o := &overlay{appended: map[string][]event.Event{}, replaced: map[string]event.Event{}}
		return both(around("Append", func(c *call, next func()) {
			o.mu.Lock()
			defer o.mu.Unlock()
			if next(); c.err != nil || len(c.events) != 1 {
				return
			}
			e := c.events[0]
			e.Payload = slices.Clone(e.Payload)
			all := append(o.appended[e.ID], e)
			if o.appended[e.ID] = all; len(all) > 1 && which(o, all[0], e) {
				c.err = do(o, e)
			}
		}), around("Read", o.read))()
	}
}

func (o *overlay) read(c *call, next func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	next()
	each(c.events, func(e *event.Event) {
		other, replaced := o.replaced[e.ID]
		setIf(replaced, e, other)
	})
	for _, e := range o.added {
		setIf(e.AggregateType == c.kind && e.AggregateID == c.id, &c.events, append(c.events, e))
	}
}

// What an event is whose ID is taken.
func (o *overlay) isBusy(_, again event.Event) bool      { return len(o.appended[again.ID]) > 2 }
func (o *overlay) isOther(first, again event.Event) bool { return first.Type != again.Type }
func (o *overlay) isElsewhere(first, again event.Event) bool {
	return first.AggregateID != again.AggregateID
}

func (o *overlay) isSame(first, again event.Event) bool {
	again.Timestamp = first.Timestamp
	return reflect.DeepEqual(first, again)
}

func (o *overlay) refuse(event.Event) error { return errOwn }

func (o *overlay) replace(e event.Event) error {
	o.replaced[e.ID] = e
	return nil
}

func (o *overlay) add(e event.Event) error {
	o.added = append(o.added, e)
	return nil
}

func sorts(compare func(a, b event.Event) int) fault {
	return after("Read", func(c *call) { slices.SortFunc(c.events, compare) })
}

// remembers is a fault in which a store keeps what it has read.
func remembers(read func(kept *sync.Map, c *call)) fault {
	return func() alteration {
		var kept sync.Map
		return after("Read", func(c *call) { read(&kept, c) })()
	}
}

// A note is what a store keeps of an event with a new ID.
type note struct {
	event.Event
	position int // in its batch
}

// notes is a fault in which a store keeps notes, and reads with them.
func notes(read func(of func(e event.Event) note, c *call)) fault {
	return func() alteration {
		var notes sync.Map
		of := func(e event.Event) note {
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
	return notes(func(of func(e event.Event) note, c *call) {
		slices.SortFunc(c.events, func(a, b event.Event) int {
			return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(key(of(a)), key(of(b))))
		})
	})
}

func withPayloads(events []event.Event, payload func(e event.Event) json.RawMessage) []event.Event {
	events = slices.Clone(events)
	each(events, func(e *event.Event) { e.Payload = payload(*e) })
	return events
}

func ownPayload(e event.Event) json.RawMessage { return slices.Clone(e.Payload) }

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
			each(c.events, func(e *event.Event) { aggregates.Store(aggregate{e.AggregateType, e.AggregateID}, true) })
		}), around("Read", func(c *call, _ func()) {
			for stored := range aggregates.Range {
				if s := stored.(aggregate); match(aggregate{c.kind, c.id}, s) {
					c.events = append(c.events, c.stored(s.kind, s.id)...)
				}
			}
			slices.SortFunc(c.events, event.Event.Compare)
			c.err = c.ctx.Err()
		}))()
	}
}

var eventFaults = []broken{
	{"drops the consensus ID", "every field",
		writes(func(e *event.Event) { e.ConsensusID = strings.TrimSuffix(e.ConsensusID, "consensus-1") })},
	{"counts bytes instead of characters", "a text as long as",
		refuses(event.ErrInvalid, func(e event.Event) bool { return len(e.AggregateID) > event.MaxAggregateID })},
	{"cuts the last character of a full column", "a text as long as",
		writes(func(e *event.Event) { setIf(len(e.Type) == event.MaxType, &e.Type, e.Type[:max(len(e.Type)-1, 0)]) })},
	{"hides kinds of event that it does not know", "a host's own kinds", after("Read", func(c *call) {
		c.events = slices.DeleteFunc(c.events, func(e event.Event) bool {
			return strings.Contains(e.Type, ".") && !strings.HasPrefix(e.Type, "runtime.watchdog.")
		})
	})},
	{"takes a payload that is an array", "an invalid event is refused", writes(func(e *event.Event) {
		list := []byte(`{"list":` + string(e.Payload) + `}`)
		setIf(strings.HasPrefix(string(e.Payload), "["), &e.Payload, list)
	})},
	{"returns an error of its own for an invalid event", "an invalid event is refused",
		after("Append", func(c *call) { c.err = own(c.err) })},
	{"cuts a text that is too long", "a text longer than", writes(func(e *event.Event) {
		text := []rune(e.AggregateID)
		e.AggregateID = string(text[:min(len(text), event.MaxAggregateID)])
	})},
	{"keeps milliseconds", "times keep their",
		writes(func(e *event.Event) { e.Timestamp = e.Timestamp.Truncate(time.Millisecond) })},
	{"rounds to the microsecond", "times keep their",
		writes(func(e *event.Event) { e.Timestamp = e.Timestamp.Round(time.Microsecond) })},
	{"cuts off towards 1970", "times keep their", writes(func(e *event.Event) {
		before1970 := e.Timestamp.Unix() < 0 && e.Timestamp.Nanosecond()%1000 != 0
		setIf(before1970, &e.Timestamp, e.Timestamp.Add(time.Microsecond))
	})},
	{"returns the zone of its server", "times keep their", after("Read", func(c *call) {
		each(c.events, func(e *event.Event) { e.Timestamp = e.Timestamp.In(time.FixedZone("server", 0)) })
	})},
	{"reads the clock time of any zone as UTC", "times keep their", writes(func(e *event.Event) {
		_, offset := e.Timestamp.Zone()
		e.Timestamp = e.Timestamp.Add(time.Duration(offset) * time.Second)
	})},
	{"keeps nanoseconds since 1970", "times keep their", after("Read", func(c *call) {
		each(c.events, func(e *event.Event) { e.Timestamp = time.Unix(0, e.Timestamp.UnixNano()).UTC() })
	})},
	{"converts numbers to floats", "nested and empty values", writesKeys(func(map[string]any) {})},
	{"keeps ASCII only", "nested and empty values", writes(func(e *event.Event) {
		e.Payload = []byte(strings.Map(func(r rune) rune { return min(r, '\x7f') }, string(e.Payload)))
	})},
	{"drops what is null", "nested and empty values", writesKeys(func(keys map[string]json.RawMessage) {
		maps.DeleteFunc(keys, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	})},
	{"returns the event_version that it added", "no key is added", writesKeys(func(keys map[string]json.RawMessage) {
		if _, own := keys["event_version"]; !own {
			keys["event_version"] = json.RawMessage("1")
		}
	})},
	{"removes an event_version that it did not add", "an event_version of its own",
		writesKeys(func(keys map[string]json.RawMessage) { delete(keys, "event_version") })},
	{"has a limit of 64 KiB", "a payload of a mebibyte",
		refuses(errOwn, func(e event.Event) bool { return len(e.Payload) > 1<<16 })},
	// The flaws of concurrency do not depend on timing: these stores count, and fail at the third append of an ID and at
	// the eleventh of an aggregate.
	{"stores a batch one by one until one fails", "a batch with one invalid event", before("Append", func(c *call) {
		invalid := slices.IndexFunc(c.events, func(e event.Event) bool { return e.Validate() != nil })
		_ = c.m.Append(context.Background(), c.events[:max(invalid, 0)]...)
	})},
	{"wants at least one event", "no events", fails("Append", errOwn, func(c *call) bool { return len(c.events) == 0 })},
	{"files a batch under its first event's aggregate", "events of several aggregates",
		before("Append", func(c *call) { each(c.events, func(e *event.Event) { e.AggregateID = c.events[0].AggregateID }) })},
	{"has a limit of parameters per statement", "a batch of ten thousand",
		fails("Append", errOwn, func(c *call) bool { return len(c.events)*7 > 65_535 })},
	{"stores an event again when it is the same", "the first is kept", overlaid((*overlay).isSame, (*overlay).add)},
	{"keeps the last", "the first is kept", overlaid((*overlay).isOther, (*overlay).replace)},
	{"refuses an ID when the event is another", "the first is kept", overlaid((*overlay).isOther, (*overlay).refuse)},
	{"takes a batch with a known ID for stored", "a batch of known and new IDs", drops(func(c *call) bool {
		return len(c.events) > 1 && slices.ContainsFunc(c.beside(), func(stored event.Event) bool {
			return slices.ContainsFunc(c.events, func(e event.Event) bool { return e.ID == stored.ID })
		})
	})},
	{"keeps the last of a batch", "the first is kept", before("Append", func(c *call) { slices.Reverse(c.events) })},
	{"looks for known IDs before the batch only", "the first is kept", fails("Append", errOwn, func(c *call) bool {
		seen := map[string]bool{}
		each(c.events, func(e *event.Event) { seen[e.ID] = true })
		return len(seen) < len(c.events)
	})},
	{"has an ID per aggregate", "stored in one aggregate", overlaid((*overlay).isElsewhere, (*overlay).add)},
	{"folds the case of IDs", "IDs that differ in case are different events", drops(func(c *call) bool {
		return len(c.events) == 1 && slices.ContainsFunc(c.beside(), func(e event.Event) bool {
			return e.ID != c.events[0].ID && strings.EqualFold(e.ID, c.events[0].ID)
		})
	})},
	{"fails calls while it is busy", "one ID appended by many", overlaid((*overlay).isBusy, (*overlay).refuse)},
	{"checks the ID and then writes, without a lock", "appended by many", overlaid((*overlay).isBusy, (*overlay).replace)},
	{"loses appends while it is busy", "many appends at once",
		drops(func(c *call) bool { return len(c.events) == 1 && len(c.beside()) >= 10 })},
	{"orders by ID", "ordered by time", sorts(func(a, b event.Event) int { return cmp.Compare(a.ID, b.ID) })},
	{"leaves events of one time in the order they came", "ordered by ID", sortsBy(func(n note) int { return n.position })},
	{"orders before it cuts off nanoseconds", "ordered by ID",
		sortsBy(func(n note) int { return n.Timestamp.Nanosecond() })},
	{"orders without regard to case", "ordered by ID", sorts(func(a, b event.Event) int {
		return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(strings.ToLower(a.ID), strings.ToLower(b.ID)))
	})},
	{"does not find an aggregate without events", "an aggregate without events",
		after("Read", func(c *call) { setIf(c.err == nil && len(c.events) == 0, &c.err, errOwn) })},
	{"compares the ID only", "of one ID", matching(func(asked, stored aggregate) bool { return asked.id == stored.id })},
	{"finds a prefix", "character of an aggregate ID",
		matchingID(func(asked, stored string) bool { return asked == stored || strings.HasPrefix(stored, asked+"/") })},
	{"takes the ID for a pattern", "character of an aggregate ID", matchingID(func(asked, stored string) bool {
		found, _ := path.Match(strings.NewReplacer("%", "*", "_", "?").Replace(asked), stored)
		return asked == stored || found && strings.ContainsAny(asked, "%_")
	})},
	{"folds the case of aggregate IDs", "character of an aggregate ID", matchingID(strings.EqualFold)},
	{"pads aggregate IDs with spaces", "character of an aggregate ID", matchingID(func(asked, stored string) bool {
		return strings.TrimRight(asked, " ") == strings.TrimRight(stored, " ")
	})},
	{"compares IDs as numbers", "character of an aggregate ID", matchingID(func(asked, stored string) bool {
		x, notX := strconv.ParseFloat(asked, 64)
		y, notY := strconv.ParseFloat(stored, 64)
		return asked == stored || notX == nil && notY == nil && x == y
	})},
	{"drops quotes", "character of an aggregate ID", matchingID(func(asked, stored string) bool {
		return strings.ReplaceAll(asked, "'", "") == strings.ReplaceAll(stored, "'", "")
	})},
	{"ignores the context of an append", "an append or a read with", ignoresContext("Append")},
	{"appends and then returns the context's error", "an append or a read with", looksAtContextLate("Append")},
	{"returns an error of its own when the context has ended", "an append or a read with", hidesContext("Append")},
	{"ignores the context of a read", "an append or a read with", ignoresContext("Read")},
	{"answers from a cache", "a read sees", remembers(func(kept *sync.Map, c *call) {
		cached, _ := kept.LoadOrStore(aggregate{c.kind, c.id}, withPayloads(c.events, ownPayload))
		c.events = withPayloads(cached.([]event.Event), ownPayload)
	})},
	{"returns its own list", "what Read returned", remembers(func(kept *sync.Map, c *call) {
		own, _ := kept.LoadOrStore(aggregate{c.kind, c.id}, c.events)
		setIf(len(c.events) == len(own.([]event.Event)), &c.events, own.([]event.Event))
	})},
	{"returns its own payloads", "what Read returned", remembers(func(kept *sync.Map, c *call) {
		c.events = withPayloads(c.events, func(e event.Event) json.RawMessage {
			shared, _ := kept.LoadOrStore(e.ID, e.Payload)
			return shared.(json.RawMessage)
		})
	})},
	{"keeps the appended payload without a copy", "what Read returned", notes(func(of func(e event.Event) note, c *call) {
		c.events = withPayloads(c.events, func(e event.Event) json.RawMessage { return ownPayload(of(e).Event) })
	})},
}

func asksFor(change func(s *event.Selection)) fault {
	return before("Select", func(c *call) { change(&c.s) })
}

// selectsMore is a fault in which other events are selected, too.
func selectsMore(from func(s event.Selection) (kind, id string)) fault {
	return after("Select", func(c *call) {
		c.s.AggregateType, c.s.AggregateID = from(c.s)
		c.events = append(c.selected(c.s), c.events...)
	})
}

func decides(change func(c *call, selected []event.Event, decided *[]event.Event)) fault {
	return before("Transact", func(c *call) {
		for _, x := range c.all {
			decide := x.Decide
			x.Decide = func(selected []event.Event) []event.Event {
				decided := decide(selected)
				change(c, selected, &decided)
				return decided
			}
		}
	})
}

func layers(change func(c *call)) fault { return after("Layers", change) }

var ableFaults = []broken{
	{"selects from after Since on", "a selection has its IDs", asksFor(func(s *event.Selection) {
		setIf(!s.Since.IsZero() && len(s.IDs) > 0, &s.Since, s.Since.Add(time.Microsecond))
	})},
	{"selects an event twice", "a selection has its IDs", after("Select", func(c *call) {
		twice := slices.IndexFunc(c.events, func(e event.Event) bool {
			return slices.Contains(c.s.IDs, e.ID) && !c.s.Since.IsZero() && !e.Timestamp.Before(c.s.Since)
		})
		if twice >= 0 {
			c.events = slices.Insert(c.events, twice, c.events[twice])
		}
	})},
	{"takes no more than one ID", "a selection has its IDs",
		asksFor(func(s *event.Selection) {
			setIf(len(s.IDs) > 1 && s.IDs[0] != "foreign", &s.IDs, s.IDs[:min(1, len(s.IDs))])
		})},
	{"appends the IDs after the others", "a selection has its IDs", after("Select", func(c *call) {
		named := func(e event.Event) bool { return slices.Contains(c.s.IDs, e.ID) }
		others := slices.DeleteFunc(slices.Clone(c.events), named)
		c.events = append(others, slices.DeleteFunc(c.events, func(e event.Event) bool { return !named(e) })...)
	})},
	{"selects without payloads", "a selection has its IDs", after("Select", func(c *call) {
		each(c.events, func(e *event.Event) { setIf(len(c.s.IDs) > 0, &e.Payload, []byte("{}")) })
	})},
	{"selects the latest of each type", "LatestOf selects", after("Select", func(c *call) {
		for _, one := range c.s.LatestOf {
			c.s.LatestOf = []string{one}
			c.events = append(c.events, c.selected(c.s)...)
		}
		slices.SortFunc(c.events, event.Event.Compare)
		c.events = slices.CompactFunc(c.events, func(a, b event.Event) bool { return a.ID == b.ID })
	})},
	{"selects the latest of all types", "LatestOf selects", asksFor(func(s *event.Selection) {
		all := []string{event.Cancel, event.Resume, event.Extend, "host.note"}
		setIf(len(s.LatestOf) > 0, &s.LatestOf, all)
	})},
	{"leaves the latest of one time to chance", "LatestOf selects", after("Select", func(c *call) {
		if len(c.s.LatestOf) > 0 && len(c.events) > 0 && c.events[0].Timestamp.Before(c.s.Since) {
			all := c.ofRun()
			c.events[0] = all[slices.IndexFunc(all, func(e event.Event) bool {
				return e.Timestamp.Equal(c.events[0].Timestamp) && slices.Contains(c.s.LatestOf, e.Type)
			})]
		}
	})},
	{"leaves out from Since until Until without counting", "Until and Known",
		asksFor(func(s *event.Selection) { setIf(s.Until.After(s.Since), &s.Since, s.Until) })},
	{"looks for IDs in all aggregates", "ID that another aggregate has", selectsMore(func(s event.Selection) (kind, id string) {
		setIf(s.Since.IsZero(), &id, "run-2")
		return s.AggregateType, id
	})},
	{"looks for IDs in all types of aggregates", "an ID that another aggregate has",
		selectsMore(func(s event.Selection) (kind, id string) { return "session", s.AggregateID })},
	{"takes no Since for the beginning", "a selection of nothing", asksFor(func(s *event.Selection) {
		setIf(s.Since.IsZero() && len(s.IDs)+len(s.LatestOf) == 0, &s.Since, time.Unix(0, 0))
	})},
	{"selects the latest without Since", "a selection of nothing",
		asksFor(func(s *event.Selection) { setIf(s.Since.IsZero() && len(s.LatestOf) > 0, &s.Since, time.Unix(0, 0)) })},
	{"ignores the context of a select", "a select with a done context", ignoresContext("Select")},
	{"decides with the whole aggregate", "an exchange decides", before("Transact", func(c *call) {
		for _, x := range c.all {
			x.Since = x.Since.AddDate(-1, 0, 0)
		}
	})},
	{"stores only the first of the events", "an exchange decides", decides(func(_ *call, _ []event.Event, all *[]event.Event) {
		setIf(len(*all) == 2 && (*all)[0].ID == "d", all, (*all)[:min(1, len(*all))])
	})},
	{"selects for all exchanges before it appends", "in their order", before("Transact", func(c *call) {
		for _, x := range c.all[min(1, len(c.all)):] {
			before, decide := c.selected(x.Selection), x.Decide
			x.Decide = func([]event.Event) []event.Event { return decide(before) }
		}
	})},
	{"has a transaction for each exchange", "a transaction with an invalid event", after("Transact", func(c *call) {
		if errors.Is(c.err, event.ErrInvalid) && len(c.ofRun()) > 0 {
			_ = c.m.Transact(context.Background(), c.all[0])
		}
	})},
	{"returns an error of its own for an invalid event", "a transaction with an invalid event",
		after("Transact", func(c *call) { c.err = own(c.err) })},
	{"keeps the IDs of a transaction that it took back", "a transaction with an invalid event", func() alteration {
		var undone atomic.Bool
		return both(after("Transact", func(c *call) { undone.Store(errors.Is(c.err, event.ErrInvalid)) }),
			fails("Append", nil, func(*call) bool { return undone.Load() }))()
	}},
	{"returns what was decided, and not what is stored", "Kept is what is stored",
		both(decides(func(c *call, _ []event.Event, decided *[]event.Event) { c.events = *decided }), after("Transact", func(c *call) {
			for _, x := range c.all {
				x.Kept = c.events
			}
		}))},
	{"returns only what is new", "Kept is what is stored", around("Transact", func(c *call, next func()) {
		before := c.ofRun()
		next()
		for _, x := range c.all {
			x.Kept = slices.DeleteFunc(x.Kept, func(e event.Event) bool {
				return slices.ContainsFunc(before, func(b event.Event) bool { return b.ID == e.ID })
			})
		}
	})},
	{"now and then decides with what another transaction has just changed", "transactions of one aggregate",
		decides(func(_ *call, selected []event.Event, decided *[]event.Event) {
			if len(selected) == 40 && len(*decided) == 1 {
				(*decided)[0].ID = selected[39].ID
			}
		})},
	{"ignores the context of a transaction", "a transaction with a done context", ignoresContext("Transact")},
	{"stores and then returns the context's error", "a transaction with a done context", looksAtContextLate("Transact")},
	{"commits what it has when the context ends", "a context that ends during",
		both(after("Transact", func(c *call) { c.err = errors.Join(c.err, c.ctx.Err()) }),
			decides(func(c *call, _ []event.Event, decided *[]event.Event) { setIf(c.ctx.Err() != nil, decided, nil) }))},
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
}

const (
	oneIDOfStores     = "open at once keep one event"
	noOverlapOfStores = "open at once do not overlap"
)

type opener = func() (event.Store, error)

// places makes places whose stores share a memory, and what the fault of a place closes over.
func places(faulty func() fault) func() opener {
	return func() opener {
		m, f := new(event.Memory), faulty()
		return func() (event.Store, error) {
			a := &altered{m, f()}
			return struct { // without transactions
				event.Store
				io.Closer
			}{a, a}, nil
		}
	}
}

// keeps is a fault of stores that keep events of their own. Those that were there when a store was closed are old.
func keeps(which func(c *call, e event.Event, old bool) bool, read func(c *call, mine, old *sync.Map)) func() fault {
	return func() fault {
		var all, old sync.Map
		return func() alteration {
			var mine sync.Map
			return both(before("Append", func(c *call) {
				for _, e := range c.events {
					if which(c, e, has(&old, e.ID)) {
						mine.LoadOrStore(e.ID, e)
					}
					all.Store(e.ID, e)
				}
			}), both(after("Read", func(c *call) { read(c, &mine, &old) }), after("Close", func(*call) {
				for id, e := range all.Range {
					old.Store(id, e)
				}
			})))()
		}
	}
}

func has(events *sync.Map, id string) bool {
	_, has := events.Load(id)
	return has
}

// readsMine has a store read its own events in the place of those that are stored.
func readsMine(c *call, mine, _ *sync.Map) {
	each(c.events, func(e *event.Event) {
		if own, is := mine.Load(e.ID); is {
			*e = own.(event.Event)
		}
	})
}

var placeFaults = []contracttest.Broken[opener]{
	{"loses its events until they are appended again", "stored when the store is opened again", places(func() fault {
		var lost atomic.Bool
		found := both(before("Append", func(*call) { lost.Store(false) }),
			after("Read", func(c *call) { setIf(lost.Load(), &c.events, nil) }))
		return both(after("Close", func(*call) { lost.Store(true) }), found)
	})},
	{"forgets its IDs when it is closed", "before the store was opened again",
		places(keeps(func(_ *call, _ event.Event, old bool) bool { return old }, readsMine))},
	{"does not read what others wrote", "see each other's events",
		places(keeps(func(*call, event.Event, bool) bool { return true }, func(c *call, mine, old *sync.Map) {
			c.events = slices.DeleteFunc(c.events, func(e event.Event) bool { return !has(mine, e.ID) && !has(old, e.ID) })
		}))},
	{"knows only the IDs it wrote", oneIDOfStores,
		places(keeps(func(_ *call, _ event.Event, old bool) bool { return !old }, readsMine))},
	{"locks only within itself", oneIDOfStores, places(keeps(func(c *call, e event.Event, _ bool) bool {
		known := slices.ContainsFunc(c.beside(), func(other event.Event) bool { return other.ID == e.ID })
		runtime.Gosched() // as does a store that waits for its disk
		return !known
	}, readsMine))},
	{"locks only within itself for a transaction", noOverlapOfStores, placeOfTransactions},
}

// placeOfTransactions returns a place whose stores each have a lock of their own for a transaction.
func placeOfTransactions() opener {
	m := new(event.Memory)
	return func() (event.Store, error) {
		var own sync.Mutex
		return &altered{m, around("Transact", func(c *call, _ func()) {
			own.Lock()
			defer own.Unlock()
			for _, x := range c.all {
				x.Kept = x.Decide(c.selected(x.Selection))
				_ = c.m.Append(c.ctx, x.Kept...)
			}
		})()}, nil
	}
}
