package storetest_test

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed62658d38/watchdog"
)

var feedFaults = brokenEvents{
	{"lists layers in the order in which they came",
		"layers are the aggregates whose events name exactly this parent, each once and sorted",
		layersChanged(func(_ *memory, _ string, layers []string) []string {
			slices.Reverse(layers)
			return layers
		})},
	{"lists a layer for each of its events",
		"layers are the aggregates whose events name exactly this parent, each once and sorted",
		layersChanged(func(_ *memory, _ string, layers []string) []string {
			if at := slices.Index(layers, "a"); at >= 0 {
				layers = slices.Insert(layers, at, "a")
			}
			return layers
		})},
	{"folds the case of parents", "layers are the aggregates whose events name exactly this parent, each once and sorted",
		layersChanged(func(m *memory, parent string, layers []string) []string {
			if upper := strings.ToUpper(parent); upper != parent {
				more, _ := m.Layers(context.Background(), upper)
				layers = slices.Sorted(slices.Values(append(layers, more...)))
			}
			return layers
		})},
	{"finds the host's aggregates",
		"layers are the aggregates whose events name exactly this parent, each once and sorted",
		layersChanged(func(_ *memory, _ string, layers []string) []string {
			if len(layers) == 3 {
				layers = slices.Insert(layers, 2, "hosts")
			}
			return layers
		})},
	{"ignores the context of a query for layers", "a query for layers with a done context returns the context's error",
		able(func(a *altered) {
			a.layers = func(ctx context.Context, parent string) ([]string, error) {
				return a.memory.Layers(context.WithoutCancel(ctx), parent)
			}
		})},
	{"tells of an event again", "a follower of all runs is told of each event that is stored from then on, once",
		tells(func(_ *altered, e event, told func(event)) {
			if told(e); e.AggregateID == "run-2" {
				told(e)
			}
		})},
	{"tells of what was stored before", "a follower of all runs is told of each event that is stored from then on, once",
		tells(func(a *altered, e event, told func(event)) {
			if before, _ := a.memory.Read(context.Background(), watchdog.AggregateType, "run-1"); before[0].ID == "before" {
				told(before[0])
			}
			told(e)
		})},
	{"tells of events without their payloads", "a follower is told of what a transaction stores",
		tells(func(_ *altered, e event, told func(event)) {
			if e.ID == "b" && e.AggregateID == "run-1" {
				e.Payload = []byte("{}")
			}
			told(e)
		})},
	{"tells of a run's layers, too", "a follower of one run is told of no other",
		able(func(a *altered) {
			a.follow = func(ctx context.Context, id string, ready func(), told func(event)) error {
				return a.memory.Follow(ctx, "", ready, func(e event) {
					if id == "" || e.AggregateID == id || strings.HasPrefix(e.AggregateID, id+"/") {
						told(e)
					}
				})
			}
		})},
	{"tells of the host's aggregates", "a follower is told of runs only",
		tells(func(a *altered, e event, told func(event)) {
			hosts, _ := a.memory.Read(context.Background(), "session", "run-1")
			for _, host := range hosts {
				told(host)
			}
			told(e)
		})},
	{"holds its only connection while it tells", "a follower may use the store while it is told",
		func() watchdog.EventStore {
			var telling atomic.Bool
			a := tells(func(_ *altered, e event, told func(event)) {
				telling.Store(true)
				told(e)
				telling.Store(false)
			})().(*altered)
			a.append = func(ctx context.Context, events ...event) error {
				if telling.Load() && events[0].ID == "b" {
					return errOwn
				}
				return a.memory.Append(ctx, events...)
			}
			return a
		}},
	{"returns nil when the context ends", "following ends with its context and leaves no goroutine",
		able(func(a *altered) {
			a.follow = func(ctx context.Context, id string, ready func(), told func(event)) error {
				_ = a.memory.Follow(ctx, id, ready, told)
				return nil
			}
		})},
	{"leaves the goroutine that follows", "following ends with its context and leaves no goroutine",
		able(func(a *altered) {
			closed := make(chan struct{})
			a.follow = func(ctx context.Context, id string, ready func(), told func(event)) error {
				go func() { <-closed }()
				return a.memory.Follow(ctx, id, ready, told)
			}
			a.close = func() error {
				close(closed)
				return nil
			}
		})},
}

// layersChanged returns a store that changes the layers that it found.
func layersChanged(change func(m *memory, parent string, layers []string) []string) func() watchdog.EventStore {
	return able(func(a *altered) {
		a.layers = func(ctx context.Context, parent string) ([]string, error) {
			layers, err := a.memory.Layers(ctx, parent)
			return change(&a.memory, parent, layers), err
		}
	})
}

// tells returns a store that tells something else than the event.
func tells(tell func(a *altered, e event, told func(event))) func() watchdog.EventStore {
	return able(func(a *altered) {
		a.follow = func(ctx context.Context, id string, ready func(), told func(event)) error {
			return a.memory.Follow(ctx, id, ready, func(e event) { tell(a, e, told) })
		}
	})
}
