package storetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/seed62658d38/watchdog"
)

var brokenFields = []broken{
	{
		"drops the consensus ID", "every field is read as it was appended",
		writesChanged(func(e *watchdog.Event) {
			if e.ConsensusID == "consensus-1" {
				e.ConsensusID = ""
			}
		}),
	},
	{
		"counts bytes instead of characters", "a text as long as its column fits",
		refuses(func(events []watchdog.Event) error {
			for _, e := range events {
				if len(e.AggregateID) > watchdog.MaxAggregateID {
					return watchdog.ErrInvalid
				}
			}
			return nil
		}),
	},
	{
		"cuts the last character of a full column", "a text as long as its column fits",
		writesChanged(func(e *watchdog.Event) {
			if len(e.Type) == watchdog.MaxEventType {
				e.Type = e.Type[:watchdog.MaxEventType-1]
			}
		}),
	},
	{
		"hides kinds of event that it does not know", "a host's own kinds of event are kept beside ours",
		reads(func(events []watchdog.Event) ([]watchdog.Event, error) {
			return slices.DeleteFunc(events, func(e watchdog.Event) bool {
				return strings.Contains(e.Type, ".") && !strings.HasPrefix(e.Type, "runtime.watchdog.")
			}), nil
		}),
	},
}

var brokenRefusals = []broken{
	{
		"takes a payload that is an array", "an invalid event is refused with ErrInvalid",
		writesChanged(func(e *watchdog.Event) {
			if strings.HasPrefix(string(e.Payload), "[") {
				e.Payload = []byte(`{"list":` + string(e.Payload) + `}`)
			}
		}),
	},
	{
		"returns an error of its own for an invalid event", "an invalid event is refused with ErrInvalid",
		writes(func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
			err := m.Append(ctx, events...)
			if errors.Is(err, watchdog.ErrInvalid) {
				return errors.New("constraint failed")
			}
			return err
		}),
	},
	{
		"cuts a text that is too long", "a text longer than its column is refused",
		writesChanged(func(e *watchdog.Event) {
			if text := []rune(e.AggregateID); len(text) > watchdog.MaxAggregateID {
				e.AggregateID = string(text[:watchdog.MaxAggregateID])
			}
		}),
	},
}

var brokenBatches = []broken{
	{
		"stores a batch one by one until one fails", "a batch with one invalid event stores nothing",
		writes(func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
			for _, e := range events {
				if err := m.Append(ctx, e); err != nil {
					return err
				}
			}
			return ctx.Err()
		}),
	},
	{
		"wants at least one event", "appending no events does nothing",
		refuses(func(events []watchdog.Event) error {
			if len(events) == 0 {
				return errors.New(`syntax error at end of input: "VALUES"`)
			}
			return nil
		}),
	},
	{
		"files a batch under its first event's aggregate", "a batch may have events of several aggregates",
		writes(func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
			events = slices.Clone(events)
			for i := range events {
				events[i].AggregateID = events[0].AggregateID
			}
			return m.Append(ctx, events...)
		}),
	},
	{
		"has a limit of parameters per statement", "a batch of ten thousand events is stored completely",
		refuses(func(events []watchdog.Event) error {
			if len(events)*7 > 65_535 {
				return errors.New("too many SQL variables")
			}
			return nil
		}),
	},
}

var brokenIdentity = []broken{
	{
		"stores an event again when it is the same", "an event appended again is kept once, without an error",
		func() watchdog.EventStore {
			return overlaid(func(stored, again watchdog.Event, o *overlay) error {
				if string(stored.Payload) == string(again.Payload) && stored.Type == again.Type &&
					stored.AggregateID == again.AggregateID {
					o.doubled[again.ID] = true
				}
				return nil
			})
		},
	},
	{
		"keeps the last", "of two events with one ID the first is kept, whatever the second says",
		func() watchdog.EventStore {
			return overlaid(func(stored, again watchdog.Event, o *overlay) error {
				if stored.Type != again.Type {
					o.replaced[again.ID] = again
				}
				return nil
			})
		},
	},
	{
		"refuses an ID when the event is another", "of two events with one ID the first is kept, whatever the second says",
		func() watchdog.EventStore {
			return overlaid(func(stored, again watchdog.Event, _ *overlay) error {
				if stored.Type != again.Type {
					return errors.New("UNIQUE constraint failed: events.id")
				}
				return nil
			})
		},
	},
	{
		"takes a batch with a known ID for stored", "a batch of known and new IDs stores the new ones",
		func() watchdog.EventStore {
			var known sync.Map
			return &altered{append: func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
				for _, e := range events {
					if _, stored := known.Load(e.ID); stored && len(events) > 1 {
						return nil
					}
				}
				for _, e := range events {
					known.Store(e.ID, true)
				}
				return m.Append(ctx, events...)
			}}
		},
	},
	{
		"keeps the last of a batch", "an ID that is twice in one batch is kept once, the first",
		writes(func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
			events = slices.Clone(events)
			slices.Reverse(events)
			return m.Append(ctx, events...)
		}),
	},
	{
		"looks for known IDs before the batch only", "an ID that is twice in one batch is kept once, the first",
		refuses(func(events []watchdog.Event) error {
			seen := map[string]bool{}
			for _, e := range events {
				if seen[e.ID] {
					return errors.New("UNIQUE constraint failed: events.id")
				}
				seen[e.ID] = true
			}
			return nil
		}),
	},
	{
		"has an ID per aggregate", "an ID that is stored in one aggregate is taken in all",
		func() watchdog.EventStore {
			return overlaid(func(stored, again watchdog.Event, o *overlay) error {
				if stored.AggregateID != again.AggregateID {
					o.added = append(o.added, again)
				}
				return nil
			})
		},
	},
	{
		"folds the case of IDs", "IDs that differ in case are different events",
		func() watchdog.EventStore {
			var known sync.Map
			return &altered{append: func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
				if len(events) == 1 {
					first, stored := known.LoadOrStore(strings.ToLower(events[0].ID), events[0].ID)
					if stored && first != events[0].ID {
						return nil
					}
				}
				return m.Append(ctx, events...)
			}}
		},
	},
}

// overlay changes what a store reads from its Memory, by event ID.
type overlay struct {
	mu       sync.Mutex
	first    map[string]watchdog.Event
	count    map[string]int
	doubled  map[string]bool
	replaced map[string]watchdog.Event
	added    []watchdog.Event
}

// overlaid returns a store that calls again when a single event is appended whose ID is taken.
func overlaid(again func(stored, again watchdog.Event, o *overlay) error) watchdog.EventStore {
	o := &overlay{
		first: map[string]watchdog.Event{}, count: map[string]int{},
		doubled: map[string]bool{}, replaced: map[string]watchdog.Event{},
	}
	return &altered{
		append: func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
			o.mu.Lock()
			defer o.mu.Unlock()
			if len(events) == 1 && events[0].Validate() == nil {
				if err := o.appended(events[0], again); err != nil {
					return err
				}
			}
			return m.Append(ctx, events...)
		},
		read: func(m *watchdog.Memory, ctx context.Context, kind, id string) ([]watchdog.Event, error) {
			o.mu.Lock()
			defer o.mu.Unlock()
			events, err := m.Read(ctx, kind, id)
			return o.apply(events, kind, id), err
		},
	}
}

func (o *overlay) appended(e watchdog.Event, again func(stored, again watchdog.Event, o *overlay) error) error {
	stored, taken := o.first[e.ID]
	o.count[e.ID]++
	if taken {
		return again(stored, e, o)
	}
	e.Payload = slices.Clone(e.Payload)
	o.first[e.ID] = e
	return nil
}

func (o *overlay) apply(events []watchdog.Event, kind, id string) (answer []watchdog.Event) {
	for _, e := range events {
		if other, replaced := o.replaced[e.ID]; replaced {
			e = other
		}
		answer = append(answer, e)
		if o.doubled[e.ID] {
			answer = append(answer, e)
		}
	}
	for _, e := range o.added {
		if e.AggregateType == kind && e.AggregateID == id {
			answer = append(answer, e)
		}
	}
	return answer
}
