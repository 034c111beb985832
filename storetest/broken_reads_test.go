package storetest_test

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
)

var brokenOrder = []broken{
	{
		"orders by ID", "events are ordered by time, in whatever order they were appended",
		reads(func(events []watchdog.Event) ([]watchdog.Event, error) {
			slices.SortFunc(events, func(a, b watchdog.Event) int { return cmp.Compare(a.ID, b.ID) })
			return events, nil
		}),
	},
	{
		"leaves events of one time in the order they came", "events of one microsecond are ordered by ID, byte by byte",
		func() watchdog.EventStore {
			return sortedBy(func(_ watchdog.Event, position int) int { return position })
		},
	},
	{
		"orders before it cuts off nanoseconds", "events of one microsecond are ordered by ID, byte by byte",
		func() watchdog.EventStore {
			return sortedBy(func(e watchdog.Event, _ int) int { return e.Timestamp.Nanosecond() })
		},
	},
	{
		"orders without regard to case", "events of one microsecond are ordered by ID, byte by byte",
		reads(func(events []watchdog.Event) ([]watchdog.Event, error) {
			slices.SortFunc(events, func(a, b watchdog.Event) int {
				return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(strings.ToLower(a.ID), strings.ToLower(b.ID)))
			})
			return events, nil
		}),
	},
}

// sortedBy returns a store that orders by time and then by a key of the event and its position in the batch.
func sortedBy(key func(e watchdog.Event, position int) int) watchdog.EventStore {
	var keys sync.Map
	return &altered{
		append: func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
			for position, e := range events {
				keys.LoadOrStore(e.ID, key(e, position))
			}
			return m.Append(ctx, events...)
		},
		read: func(m *watchdog.Memory, ctx context.Context, kind, id string) ([]watchdog.Event, error) {
			events, err := m.Read(ctx, kind, id)
			slices.SortFunc(events, func(a, b watchdog.Event) int {
				x, _ := keys.Load(a.ID)
				y, _ := keys.Load(b.ID)
				return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(x.(int), y.(int)))
			})
			return events, err
		},
	}
}

var brokenTimes = []broken{
	{
		"keeps milliseconds", "times keep their microseconds",
		writesChanged(func(e *watchdog.Event) { e.Timestamp = e.Timestamp.Truncate(time.Millisecond) }),
	},
	{
		"rounds to the microsecond", "times are cut off below the microsecond, not rounded",
		writesChanged(func(e *watchdog.Event) { e.Timestamp = e.Timestamp.Round(time.Microsecond) }),
	},
	{
		"cuts off towards 1970", "times are cut off below the microsecond, not rounded",
		writesChanged(func(e *watchdog.Event) {
			if e.Timestamp.Unix() < 0 && e.Timestamp.Nanosecond()%1000 != 0 {
				e.Timestamp = e.Timestamp.Add(time.Microsecond)
			}
		}),
	},
	{
		"returns the zone of its server", "times are read in UTC",
		readsChanged(func(e *watchdog.Event) { e.Timestamp = e.Timestamp.In(time.FixedZone("server", 0)) }),
	},
	{
		"reads the clock time of any zone as UTC", "times of other zones are converted",
		writesChanged(func(e *watchdog.Event) {
			_, offset := e.Timestamp.Zone()
			e.Timestamp = e.Timestamp.Add(time.Duration(offset) * time.Second)
		}),
	},
	{
		"keeps nanoseconds since 1970", "the first and the last year fit",
		readsChanged(func(e *watchdog.Event) { e.Timestamp = time.Unix(0, e.Timestamp.UnixNano()).UTC() }),
	},
}

var brokenAggregates = []broken{
	{
		"does not find an aggregate without events", "an aggregate without events is empty, and no error",
		reads(func(events []watchdog.Event) ([]watchdog.Event, error) {
			if len(events) == 0 {
				return nil, errors.New("sql: no rows in result set")
			}
			return events, nil
		}),
	},
	{
		"compares the ID only", "aggregates of one ID and different types are kept apart",
		matching(func(askedType, askedID, _, storedID string) bool { return askedID == storedID }),
	},
	{
		"finds a prefix", "a run and its layers are kept apart",
		matchingID(func(asked, stored string) bool { return asked == stored || strings.HasPrefix(stored, asked+"/") }),
	},
	{
		"takes the ID for a pattern", "nothing in an aggregate ID is a pattern",
		matchingID(func(asked, stored string) bool {
			found, _ := path.Match(strings.NewReplacer("%", "*", "_", "?").Replace(asked), stored)
			return asked == stored || found && strings.ContainsAny(asked, "%_")
		}),
	},
	{
		"folds the case of aggregate IDs", "case, accents and spaces in an aggregate ID count",
		matchingID(strings.EqualFold),
	},
	{
		"pads aggregate IDs with spaces", "case, accents and spaces in an aggregate ID count",
		matchingID(func(asked, stored string) bool {
			return strings.TrimRight(asked, " ") == strings.TrimRight(stored, " ")
		}),
	},
	{
		"compares IDs as numbers", "quotes and other symbols in an aggregate ID are only characters",
		matchingID(func(asked, stored string) bool {
			x, notX := strconv.ParseFloat(asked, 64)
			y, notY := strconv.ParseFloat(stored, 64)
			return asked == stored || notX == nil && notY == nil && x == y
		}),
	},
	{
		"drops quotes", "quotes and other symbols in an aggregate ID are only characters",
		matchingID(func(asked, stored string) bool {
			return strings.ReplaceAll(asked, "'", "") == strings.ReplaceAll(stored, "'", "")
		}),
	},
}

func matchingID(match func(asked, stored string) bool) func() watchdog.EventStore {
	return matching(func(askedType, askedID, storedType, storedID string) bool {
		return askedType == storedType && match(askedID, storedID)
	})
}

// matching returns a store that reads the events of all matching aggregates.
func matching(match func(askedType, askedID, storedType, storedID string) bool) func() watchdog.EventStore {
	return func() watchdog.EventStore {
		type aggregate struct{ kind, id string }
		var aggregates sync.Map
		return &altered{
			append: func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
				for _, e := range events {
					aggregates.Store(aggregate{e.AggregateType, e.AggregateID}, true)
				}
				return m.Append(ctx, events...)
			},
			read: func(m *watchdog.Memory, ctx context.Context, kind, id string) ([]watchdog.Event, error) {
				var found []watchdog.Event
				for stored := range aggregates.Range {
					if s := stored.(aggregate); match(kind, id, s.kind, s.id) {
						events, _ := m.Read(ctx, s.kind, s.id)
						found = append(found, events...)
					}
				}
				slices.SortFunc(found, watchdog.Event.Compare)
				return found, ctx.Err()
			},
		}
	}
}

var brokenOwnership = []broken{
	{
		"returns its own payloads", "what Read returned belongs to the caller",
		func() watchdog.EventStore {
			var handedOut sync.Map
			return &altered{read: func(m *watchdog.Memory, ctx context.Context, kind, id string) ([]watchdog.Event, error) {
				events, err := m.Read(ctx, kind, id)
				for i := range events {
					shared, _ := handedOut.LoadOrStore(events[i].ID, events[i].Payload)
					copy(events[i:i+1], []watchdog.Event{withPayload(events[i], shared)})
				}
				return events, err
			}}
		},
	},
	{
		"keeps the appended payload without a copy", "what was appended belongs to the caller again",
		func() watchdog.EventStore {
			var kept sync.Map
			return &altered{
				append: func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
					for _, e := range events {
						kept.LoadOrStore(e.ID, e.Payload)
					}
					return m.Append(ctx, events...)
				},
				read: func(m *watchdog.Memory, ctx context.Context, kind, id string) ([]watchdog.Event, error) {
					events, err := m.Read(ctx, kind, id)
					for i := range events {
						alias, _ := kept.Load(events[i].ID)
						events[i] = withPayload(events[i], alias)
						events[i].Payload = slices.Clone(events[i].Payload)
					}
					return events, err
				},
			}
		},
	},
}
