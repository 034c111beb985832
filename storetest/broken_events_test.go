package storetest_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
)

var fieldFaults = brokenEvents{
	{"drops the consensus ID", "every field is read as it was appended",
		writesChanged(func(e *event) {
			e.ConsensusID = strings.TrimSuffix(e.ConsensusID, "consensus-1")
		})},
	{"counts bytes instead of characters", "a text as long as its column fits",
		refuses(watchdog.ErrInvalid, some(func(e event) bool {
			return len(e.AggregateID) > watchdog.MaxAggregateID
		}))},
	{"cuts the last character of a full column", "a text as long as its column fits",
		writesChanged(func(e *event) {
			if len(e.Type) == watchdog.MaxEventType {
				e.Type = e.Type[:watchdog.MaxEventType-1]
			}
		})},
	{"hides kinds of event that it does not know", "a host's own kinds of event are kept beside ours",
		reads(func(events []event) []event {
			return slices.DeleteFunc(events, func(e event) bool {
				return strings.Contains(e.Type, ".") && !strings.HasPrefix(e.Type, "runtime.watchdog.")
			})
		})},
	{"takes a payload that is an array", "an invalid event is refused with ErrInvalid",
		writesChanged(func(e *event) {
			if strings.HasPrefix(string(e.Payload), "[") {
				e.Payload = []byte(`{"list":` + string(e.Payload) + `}`)
			}
		})},
	{"returns an error of its own for an invalid event", "an invalid event is refused with ErrInvalid",
		appends(func(
			m *memory, ctx context.Context, events []event,
		) error {
			return own(m.Append(ctx, events...))
		})},
	{"cuts a text that is too long", "a text longer than its column is refused",
		writesChanged(func(e *event) {
			text := []rune(e.AggregateID)
			e.AggregateID = string(text[:min(len(text), watchdog.MaxAggregateID)])
		})},
	{"keeps milliseconds", "times keep their microseconds",
		writesChanged(func(e *event) { e.Timestamp = e.Timestamp.Truncate(time.Millisecond) })},
	{"rounds to the microsecond", "times are cut off below the microsecond, not rounded",
		writesChanged(func(e *event) { e.Timestamp = e.Timestamp.Round(time.Microsecond) })},
	{"cuts off towards 1970", "times are cut off below the microsecond, not rounded",
		writesChanged(func(e *event) {
			if e.Timestamp.Unix() < 0 && e.Timestamp.Nanosecond()%1000 != 0 {
				e.Timestamp = e.Timestamp.Add(time.Microsecond)
			}
		})},
	{"returns the zone of its server", "times are read in UTC",
		readsChanged(func(e *event) {
			e.Timestamp = e.Timestamp.In(time.FixedZone("server", 0))
		})},
	{"reads the clock time of any zone as UTC", "times of other zones are converted",
		writesChanged(func(e *event) {
			_, offset := e.Timestamp.Zone()
			e.Timestamp = e.Timestamp.Add(time.Duration(offset) * time.Second)
		})},
	{"keeps nanoseconds since 1970", "the first and the last year fit",
		readsChanged(func(e *event) {
			e.Timestamp = time.Unix(0, e.Timestamp.UnixNano()).UTC()
		})},
	{"converts numbers to floats", "numbers in a payload stay exact", writesKeys(func(map[string]any) {})},
	{"keeps ASCII only", "text in a payload stays as it is",
		writesChanged(func(e *event) {
			e.Payload = []byte(strings.Map(func(r rune) rune { return min(r, '\x7f') }, string(e.Payload)))
		})},
	{"drops what is null", "nested and empty values in a payload stay",
		writesKeys(func(keys map[string]json.RawMessage) {
			maps.DeleteFunc(keys, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
		})},
	{"returns the event_version that it added", "no key is added to a payload",
		writesKeys(func(keys map[string]json.RawMessage) {
			if _, own := keys["event_version"]; !own {
				keys["event_version"] = json.RawMessage("1")
			}
		})},
	{"removes an event_version that it did not add", "a payload keeps an event_version of its own",
		writesKeys(func(keys map[string]json.RawMessage) {
			delete(keys, "event_version")
		})},
	{"has a limit of 64 KiB", "a payload of a mebibyte fits",
		refuses(errOwn, some(func(e event) bool { return len(e.Payload) > 1<<16 }))},
}

// some reports whether one of the events is such a one.
func some(is func(e event) bool) func(events []event) bool {
	return func(events []event) bool { return slices.ContainsFunc(events, is) }
}

// writesKeys changes the keys of payloads, and decodes their values into V.
func writesKeys[V any](change func(keys map[string]V)) func() watchdog.EventStore {
	return writesChanged(func(e *event) {
		var keys map[string]V
		if json.Unmarshal(e.Payload, &keys) == nil && keys != nil {
			change(keys)
			e.Payload, _ = json.Marshal(keys)
		}
	})
}

// The flaws of concurrency do not depend on timing: these stores count, and fail at the third append of an ID and at
// the eleventh of an aggregate.
var batchFaults = brokenEvents{
	{"stores a batch one by one until one fails", "a batch with one invalid event stores nothing",
		writes(func(m *memory, events []event) []event {
			invalid := slices.IndexFunc(events, func(e event) bool { return e.Validate() != nil })
			_ = m.Append(context.Background(), events[:max(invalid, 0)]...)
			return events
		})},
	{"wants at least one event", "appending no events does nothing",
		refuses(errOwn, func(events []event) bool { return len(events) == 0 })},
	{"files a batch under its first event's aggregate", "a batch may have events of several aggregates",
		writes(func(_ *memory, events []event) []event {
			return changed(events, func(e *event) { e.AggregateID = events[0].AggregateID })
		})},
	{"has a limit of parameters per statement", "a batch of ten thousand events is stored completely",
		refuses(errOwn, func(events []event) bool {
			return len(events)*7 > 65_535
		})},
	{"stores an event again when it is the same", "an event appended again is kept once, without an error",
		overlaid(func(o *overlay, first, again event) error {
			if string(first.Payload) == string(again.Payload) && first.Type == again.Type &&
				first.AggregateID == again.AggregateID {
				o.added = append(o.added, again)
			}
			return nil
		})},
	{"keeps the last", "of two events with one ID the first is kept, whatever the second says",
		overlaid(func(o *overlay, first, again event) error {
			if first.Type != again.Type {
				o.replaced[again.ID] = again
			}
			return nil
		})},
	{"refuses an ID when the event is another", "of two events with one ID the first is kept, whatever the second says",
		overlaid(func(_ *overlay, first, again event) error {
			if first.Type != again.Type {
				return errOwn
			}
			return nil
		})},
	{"takes a batch with a known ID for stored", "a batch of known and new IDs stores the new ones",
		writes(func(m *memory, events []event) []event {
			if len(events) > 1 && slices.ContainsFunc(storedWith(m, events), func(stored event) bool {
				return slices.ContainsFunc(events, func(e event) bool { return e.ID == stored.ID })
			}) {
				return nil
			}
			return events
		})},
	{"keeps the last of a batch", "an ID that is twice in one batch is kept once, the first",
		writes(func(_ *memory, events []event) []event {
			slices.Reverse(events)
			return events
		})},
	{"looks for known IDs before the batch only", "an ID that is twice in one batch is kept once, the first",
		refuses(errOwn, func(events []event) bool {
			seen := map[string]bool{}
			return slices.ContainsFunc(events, func(e event) bool {
				twice := seen[e.ID]
				seen[e.ID] = true
				return twice
			})
		})},
	{"has an ID per aggregate", "an ID that is stored in one aggregate is taken in all",
		overlaid(func(o *overlay, first, again event) error {
			if first.AggregateID != again.AggregateID {
				o.added = append(o.added, again)
			}
			return nil
		})},
	{"folds the case of IDs", "IDs that differ in case are different events",
		writes(func(m *memory, events []event) []event {
			if len(events) == 1 && slices.ContainsFunc(storedWith(m, events), func(e event) bool {
				return e.ID != events[0].ID && strings.EqualFold(e.ID, events[0].ID)
			}) {
				return nil
			}
			return events
		})},
	{"fails calls while it is busy", "one ID appended by many at once is kept once, and all succeed",
		overlaid(func(o *overlay, _, again event) error {
			if o.count[again.ID] > 2 {
				return errOwn
			}
			return nil
		})},
	{"checks the ID and then writes, without a lock", "one ID appended by many at once is kept once, and all succeed",
		overlaid(func(o *overlay, _, again event) error {
			if o.count[again.ID] > 2 {
				o.replaced[again.ID] = again
			}
			return nil
		})},
	{"loses appends while it is busy", "many appends at once are all kept",
		writes(func(m *memory, events []event) []event {
			if len(events) == 1 && len(storedWith(m, events)) >= 10 {
				return nil
			}
			return events
		})},
}

// storedWith returns the events that are stored in the aggregate of the first one.
func storedWith(m *memory, events []event) []event {
	stored, _ := m.Read(context.Background(), events[0].AggregateType, events[0].AggregateID)
	return stored
}

// overlay changes what a store reads from its Memory.
type overlay struct {
	mu       sync.Mutex
	first    map[string]event
	count    map[string]int
	replaced map[string]event
	added    []event
}

// overlaid returns a store that calls again when a single event is appended whose ID is taken.
func overlaid(again func(o *overlay, first, again event) error) func() watchdog.EventStore {
	return plain(func(a *altered) {
		o := &overlay{first: map[string]event{}, count: map[string]int{}, replaced: map[string]event{}}
		a.append = func(ctx context.Context, events ...event) error {
			o.mu.Lock()
			defer o.mu.Unlock()
			if err := a.memory.Append(ctx, events...); err != nil || len(events) != 1 {
				return err
			}
			e := events[0]
			e.Payload = slices.Clone(e.Payload)
			o.count[e.ID]++
			if first, taken := o.first[e.ID]; taken {
				return again(o, first, e)
			}
			o.first[e.ID] = e
			return nil
		}
		a.read = func(ctx context.Context, kind, id string) ([]event, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			events, err := a.memory.Read(ctx, kind, id)
			for i, e := range events {
				if other, replaced := o.replaced[e.ID]; replaced {
					events[i] = other
				}
			}
			for _, e := range o.added {
				if e.AggregateType == kind && e.AggregateID == id {
					events = append(events, e)
				}
			}
			return events, err
		}
	})
}
