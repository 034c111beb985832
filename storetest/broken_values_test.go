package storetest_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/seed62658d38/watchdog"
)

var brokenPayloads = []broken{
	{
		"converts numbers to floats", "numbers in a payload stay exact",
		writesPayload(func(object map[string]any) map[string]any { return object }),
	},
	{
		"keeps ASCII only", "text in a payload stays as it is",
		writesChanged(func(e *watchdog.Event) {
			ascii := strings.Map(func(r rune) rune {
				if r > 127 {
					return '?'
				}
				return r
			}, string(e.Payload))
			e.Payload = json.RawMessage(ascii)
		}),
	},
	{
		"drops what is null", "nested and empty values in a payload stay",
		writesKeys(func(keys map[string]json.RawMessage) {
			for key, value := range keys {
				if string(value) == "null" {
					delete(keys, key)
				}
			}
		}),
	},
	{
		"returns the event_version that it added", "no key is added to a payload",
		writesKeys(func(keys map[string]json.RawMessage) {
			if _, own := keys["event_version"]; !own {
				keys["event_version"] = json.RawMessage("1")
			}
		}),
	},
	{
		"removes an event_version that it did not add", "a payload keeps an event_version of its own",
		writesKeys(func(keys map[string]json.RawMessage) { delete(keys, "event_version") }),
	},
	{
		"has a limit of 64 KiB", "a payload of a mebibyte fits",
		refuses(func(events []watchdog.Event) error {
			for _, e := range events {
				if len(e.Payload) > 1<<16 {
					return errors.New("data too long for column payload")
				}
			}
			return nil
		}),
	},
}

// writesPayload decodes payloads and encodes them again, without care for numbers.
func writesPayload(change func(map[string]any) map[string]any) func() watchdog.EventStore {
	return writesChanged(func(e *watchdog.Event) {
		var object map[string]any
		if json.Unmarshal(e.Payload, &object) == nil && object != nil {
			e.Payload, _ = json.Marshal(change(object))
		}
	})
}

// writesKeys changes the keys of payloads, and keeps the other values byte by byte.
func writesKeys(change func(map[string]json.RawMessage)) func() watchdog.EventStore {
	return writesChanged(func(e *watchdog.Event) {
		var keys map[string]json.RawMessage
		if json.Unmarshal(e.Payload, &keys) == nil && keys != nil {
			change(keys)
			e.Payload, _ = json.Marshal(keys)
		}
	})
}

func withPayload(e watchdog.Event, payload any) watchdog.Event {
	e.Payload = payload.(json.RawMessage)
	return e
}

const (
	appendAfterEnd = "an append with a done context stores nothing and returns the context's error"
	readAfterEnd   = "a read with a done context returns the context's error"
)

var brokenContexts = []broken{
	{
		"ignores the context of an append", appendAfterEnd,
		writes(func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
			return m.Append(context.WithoutCancel(ctx), events...)
		}),
	},
	{
		"appends and then returns the context's error", appendAfterEnd,
		writes(func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
			return errors.Join(m.Append(context.WithoutCancel(ctx), events...), ctx.Err())
		}),
	},
	{
		"returns an error of its own when the context has ended", appendAfterEnd,
		writes(func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
			if ctx.Err() != nil {
				return errors.New("interrupted (9)")
			}
			return m.Append(ctx, events...)
		}),
	},
	{
		"ignores the context of a read", readAfterEnd,
		func() watchdog.EventStore {
			return &altered{read: func(m *watchdog.Memory, ctx context.Context, kind, id string) ([]watchdog.Event, error) {
				return m.Read(context.WithoutCancel(ctx), kind, id)
			}}
		},
	},
}

const (
	oneIDAtOnce    = "one ID appended by many at once is kept once, and all succeed"
	allAtOnce      = "many appends at once are all kept"
	readAfterWrite = "a read sees what was appended before it"
)

// The flaws of concurrency do not depend on timing: these stores count, and fail at the third append of an ID and at
// the eleventh of an aggregate.
var brokenConcurrency = []broken{
	{
		"fails calls while it is busy", oneIDAtOnce,
		func() watchdog.EventStore {
			return overlaid(func(_, again watchdog.Event, o *overlay) error {
				if o.count[again.ID] > 2 {
					return errors.New("database is locked")
				}
				return nil
			})
		},
	},
	{
		"checks the ID and then writes, without a lock", oneIDAtOnce,
		func() watchdog.EventStore {
			return overlaid(func(_, again watchdog.Event, o *overlay) error {
				if o.count[again.ID] > 2 {
					o.replaced[again.ID] = again
				}
				return nil
			})
		},
	},
	{
		"loses appends while it is busy", allAtOnce,
		func() watchdog.EventStore {
			var mu sync.Mutex
			stored := map[string]int{}
			return &altered{append: func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
				mu.Lock()
				defer mu.Unlock()
				if len(events) == 1 && stored[events[0].AggregateID] == 10 {
					return nil
				}
				err := m.Append(ctx, events...)
				if err == nil && len(events) == 1 {
					stored[events[0].AggregateID]++
				}
				return err
			}}
		},
	},
	{
		"answers from a cache", readAfterWrite,
		func() watchdog.EventStore {
			var mu sync.Mutex
			cache := map[string][]watchdog.Event{}
			return &altered{read: func(m *watchdog.Memory, ctx context.Context, kind, id string) ([]watchdog.Event, error) {
				mu.Lock()
				defer mu.Unlock()
				events, err := m.Read(ctx, kind, id)
				if err != nil {
					return nil, err
				}
				if cached, hit := cache[kind+"\n"+id]; hit {
					return copied(cached), nil
				}
				cache[kind+"\n"+id] = copied(events)
				return events, nil
			}}
		},
	},
}

func copied(events []watchdog.Event) []watchdog.Event {
	events = slices.Clone(events)
	for i := range events {
		events[i].Payload = slices.Clone(events[i].Payload)
	}
	return events
}
