package storetest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/seed62658d38/watchdog"
)

var readFaults = brokenEvents{
	{"orders by ID", "events are ordered by time, in whatever order they were appended",
		sorts(func(a, b event) int { return cmp.Compare(a.ID, b.ID) })},
	{"leaves events of one time in the order they came", "events of one microsecond are ordered by ID, byte by byte",
		sortsBy(func(_ event, position int) int { return position })},
	{"orders before it cuts off nanoseconds", "events of one microsecond are ordered by ID, byte by byte",
		sortsBy(func(e event, _ int) int { return e.Timestamp.Nanosecond() })},
	{"orders without regard to case", "events of one microsecond are ordered by ID, byte by byte",
		sorts(func(a, b event) int {
			return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(strings.ToLower(a.ID), strings.ToLower(b.ID)))
		})},
	{"does not find an aggregate without events", "an aggregate without events is empty, and no error",
		plain(func(a *altered) {
			a.read = func(ctx context.Context, kind, id string) ([]event, error) {
				events, err := a.memory.Read(ctx, kind, id)
				if err == nil && len(events) == 0 {
					err = errOwn
				}
				return events, err
			}
		})},
	{"compares the ID only", "aggregates of one ID and different types are kept apart",
		matching(func(asked, stored aggregate) bool { return asked.id == stored.id })},
	{"finds a prefix", "a run and its layers are kept apart",
		matchingID(func(asked, stored string) bool {
			return asked == stored || strings.HasPrefix(stored, asked+"/")
		})},
	{"takes the ID for a pattern", "nothing in an aggregate ID is a pattern",
		matchingID(func(asked, stored string) bool {
			found, _ := path.Match(strings.NewReplacer("%", "*", "_", "?").Replace(asked), stored)
			return asked == stored || found && strings.ContainsAny(asked, "%_")
		})},
	{"folds the case of aggregate IDs", "case, accents and spaces in an aggregate ID count",
		matchingID(strings.EqualFold)},
	{"pads aggregate IDs with spaces", "case, accents and spaces in an aggregate ID count",
		matchingID(func(asked, stored string) bool {
			return strings.TrimRight(asked, " ") == strings.TrimRight(stored, " ")
		})},
	{"compares IDs as numbers", "quotes and other symbols in an aggregate ID are only characters",
		matchingID(func(asked, stored string) bool {
			x, notX := strconv.ParseFloat(asked, 64)
			y, notY := strconv.ParseFloat(stored, 64)
			return asked == stored || notX == nil && notY == nil && x == y
		})},
	{"drops quotes", "quotes and other symbols in an aggregate ID are only characters",
		matchingID(func(asked, stored string) bool {
			return strings.ReplaceAll(asked, "'", "") == strings.ReplaceAll(stored, "'", "")
		})},
	{"ignores the context of an append", "an append with a done context stores nothing and returns the context's error",
		appends(func(m *memory, ctx context.Context, events []event) error {
			return m.Append(context.WithoutCancel(ctx), events...)
		})},
	{"appends and then returns the context's error",
		"an append with a done context stores nothing and returns the context's error",
		appends(func(m *memory, ctx context.Context, events []event) error {
			return errors.Join(m.Append(context.WithoutCancel(ctx), events...), ctx.Err())
		})},
	{"returns an error of its own when the context has ended",
		"an append with a done context stores nothing and returns the context's error",
		appends(func(
			m *memory, ctx context.Context, events []event,
		) error {
			if ctx.Err() != nil {
				return errOwn
			}
			return m.Append(ctx, events...)
		})},
	{"ignores the context of a read", "a read with a done context returns the context's error",
		plain(func(a *altered) {
			a.read = func(ctx context.Context, kind, id string) ([]event, error) {
				return a.memory.Read(context.WithoutCancel(ctx), kind, id)
			}
		})},
	{"answers from a cache", "a read sees what was appended before it",
		plain(func(a *altered) {
			var cache sync.Map
			a.read = func(ctx context.Context, kind, id string) ([]event, error) {
				events, err := a.memory.Read(ctx, kind, id)
				if err != nil {
					return nil, err
				}
				cached, _ := cache.LoadOrStore(aggregate{kind, id}, withPayloads(events, ownPayload))
				return withPayloads(cached.([]event), ownPayload), nil
			}
		})},
	{"returns its own list", "what Read returned belongs to the caller",
		plain(func(a *altered) {
			var lists sync.Map
			a.read = func(ctx context.Context, kind, id string) ([]event, error) {
				events, err := a.memory.Read(ctx, kind, id)
				own, _ := lists.LoadOrStore(aggregate{kind, id}, events)
				if len(events) == len(own.([]event)) {
					return own.([]event), err
				}
				return events, err
			}
		})},
	{"returns its own payloads", "what Read returned belongs to the caller",
		plain(func(a *altered) {
			var handedOut sync.Map
			a.read = func(ctx context.Context, kind, id string) ([]event, error) {
				events, err := a.memory.Read(ctx, kind, id)
				return withPayloads(events, func(e event) json.RawMessage {
					shared, _ := handedOut.LoadOrStore(e.ID, e.Payload)
					return shared.(json.RawMessage)
				}), err
			}
		})},
	{"keeps the appended payload without a copy", "what was appended belongs to the caller again",
		plain(func(a *altered) {
			var kept sync.Map
			a.append = func(ctx context.Context, events ...event) error {
				for _, e := range events {
					kept.LoadOrStore(e.ID, e.Payload)
				}
				return a.memory.Append(ctx, events...)
			}
			a.read = func(ctx context.Context, kind, id string) ([]event, error) {
				events, err := a.memory.Read(ctx, kind, id)
				return withPayloads(events, func(e event) json.RawMessage {
					alias, _ := kept.Load(e.ID)
					return slices.Clone(alias.(json.RawMessage))
				}), err
			}
		})},
}

// withPayloads returns copies of the events with other payloads.
func withPayloads(events []event, payload func(e event) json.RawMessage) []event {
	events = slices.Clone(events)
	for i, e := range events {
		events[i].Payload = payload(e)
	}
	return events
}

func ownPayload(e event) json.RawMessage { return slices.Clone(e.Payload) }

// sortsBy returns a store that orders by time and then by a key of the event and its position in the batch.
func sortsBy(key func(e event, position int) int) func() watchdog.EventStore {
	return plain(func(a *altered) {
		var keys sync.Map
		a.append = func(ctx context.Context, events ...event) error {
			for position, e := range events {
				keys.LoadOrStore(e.ID, key(e, position))
			}
			return a.memory.Append(ctx, events...)
		}
		a.read = func(ctx context.Context, kind, id string) ([]event, error) {
			events, err := a.memory.Read(ctx, kind, id)
			slices.SortFunc(events, func(a, b event) int {
				x, _ := keys.Load(a.ID)
				y, _ := keys.Load(b.ID)
				return cmp.Or(a.Timestamp.Compare(b.Timestamp), cmp.Compare(x.(int), y.(int)))
			})
			return events, err
		}
	})
}

type aggregate struct{ kind, id string }

func matchingID(match func(asked, stored string) bool) func() watchdog.EventStore {
	return matching(func(asked, stored aggregate) bool {
		return asked.kind == stored.kind && match(asked.id, stored.id)
	})
}

// matching returns a store that reads the events of all matching aggregates.
func matching(match func(asked, stored aggregate) bool) func() watchdog.EventStore {
	return plain(func(a *altered) {
		var aggregates sync.Map
		a.append = func(ctx context.Context, events ...event) error {
			for _, e := range events {
				aggregates.Store(aggregate{e.AggregateType, e.AggregateID}, true)
			}
			return a.memory.Append(ctx, events...)
		}
		a.read = func(ctx context.Context, kind, id string) (found []event, _ error) {
			for stored := range aggregates.Range {
				if s := stored.(aggregate); match(aggregate{kind, id}, s) {
					events, _ := a.memory.Read(ctx, s.kind, s.id)
					found = append(found, events...)
				}
			}
			slices.SortFunc(found, event.Compare)
			return found, ctx.Err()
		}
	})
}
