package storetest_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/seed62658d38/watchdog"
)

const exactLayers = "layers are the aggregates whose events name exactly this parent, each once and sorted"

var brokenLayers = []broken{
	{
		"lists layers in the order in which they came", exactLayers,
		layersChanged(func(layers []string) []string {
			slices.Reverse(layers)
			return layers
		}),
	},
	{
		"lists a layer for each of its events", exactLayers,
		layersChanged(func(layers []string) []string {
			if at := slices.Index(layers, "a"); at >= 0 {
				layers = slices.Insert(layers, at, "a")
			}
			return layers
		}),
	},
	{
		"folds the case of parents", exactLayers,
		layering(func(m *watchdog.Memory, ctx context.Context, parent string) ([]string, error) {
			layers, err := m.Layers(ctx, parent)
			if upper := strings.ToUpper(parent); upper != parent {
				more, _ := m.Layers(ctx, upper)
				layers = append(layers, more...)
				slices.Sort(layers)
			}
			return layers, err
		}),
	},
	{
		"finds the host's aggregates", exactLayers,
		layersChanged(func(layers []string) []string {
			if len(layers) == 3 {
				layers = slices.Insert(layers, 2, "hosts")
			}
			return layers
		}),
	},
	{
		"ignores the context of a query for layers", "a query for layers with a done context returns the context's error",
		layering(func(m *watchdog.Memory, ctx context.Context, parent string) ([]string, error) {
			return m.Layers(context.WithoutCancel(ctx), parent)
		}),
	},
}

// layersChanged returns a store that changes the layers that it found.
func layersChanged(change func(layers []string) []string) func() watchdog.EventStore {
	return layering(func(m *watchdog.Memory, ctx context.Context, parent string) ([]string, error) {
		layers, err := m.Layers(ctx, parent)
		return change(layers), err
	})
}

const (
	toldOnce     = "a follower of all runs is told of each event that is stored from then on, once"
	followingEnd = "following ends with its context and leaves no goroutine"
)

var brokenFollows = []broken{
	{
		"tells of an event again", toldOnce,
		tellsChanged(func(_ *watchdog.Memory, e watchdog.Event, told func(watchdog.Event)) {
			if told(e); e.AggregateID == "run-2" {
				told(e)
			}
		}),
	},
	{
		"tells of what was stored before", toldOnce,
		followingAs(func(
			m *watchdog.Memory, ctx context.Context, id string, ready func(), told func(watchdog.Event),
		) error {
			before, _ := m.Read(ctx, watchdog.AggregateType, "run-1")
			return m.Follow(ctx, id, ready, func(e watchdog.Event) {
				if len(before) > 0 {
					told(before[0])
				}
				told(e)
			})
		}),
	},
	{
		"tells of events without their payloads", "a follower is told of what a transaction stores",
		tellsChanged(func(_ *watchdog.Memory, e watchdog.Event, told func(watchdog.Event)) {
			if e.ID == "b" && e.AggregateID == "run-1" {
				e.Payload = []byte("{}")
			}
			told(e)
		}),
	},
	{
		"tells of a run's layers, too", "a follower of one run is told of no other",
		followingAs(func(
			m *watchdog.Memory, ctx context.Context, id string, ready func(), told func(watchdog.Event),
		) error {
			return m.Follow(ctx, "", ready, func(e watchdog.Event) {
				if id == "" || e.AggregateID == id || strings.HasPrefix(e.AggregateID, id+"/") {
					told(e)
				}
			})
		}),
	},
	{
		"tells of the host's aggregates", "a follower is told of runs only",
		tellsChanged(func(m *watchdog.Memory, e watchdog.Event, told func(watchdog.Event)) {
			hosts, _ := m.Read(context.Background(), "session", "run-1")
			for _, host := range hosts {
				told(host)
			}
			told(e)
		}),
	},
	{
		"holds its only connection while it tells", "a follower may use the store while it is told",
		func() watchdog.EventStore {
			var telling atomic.Bool
			a := &able{append: func(m *watchdog.Memory, ctx context.Context, events []watchdog.Event) error {
				if telling.Load() && events[0].ID == "b" {
					return errors.New("database is locked")
				}
				return m.Append(ctx, events...)
			}}
			a.follow = func(
				m *watchdog.Memory, ctx context.Context, id string, ready func(), told func(watchdog.Event),
			) error {
				return m.Follow(ctx, id, ready, func(e watchdog.Event) {
					telling.Store(true)
					told(e)
					telling.Store(false)
				})
			}
			return a
		},
	},
	{
		"returns nil when the context ends", followingEnd,
		followingAs(func(
			m *watchdog.Memory, ctx context.Context, id string, ready func(), told func(watchdog.Event),
		) error {
			_ = m.Follow(ctx, id, ready, told)
			return nil
		}),
	},
	{
		"leaves the goroutine that follows", followingEnd,
		func() watchdog.EventStore { return &leaking{closed: make(chan struct{})} },
	},
}

// tellsChanged returns a store that tells something else than the event.
func tellsChanged(
	tell func(m *watchdog.Memory, e watchdog.Event, told func(watchdog.Event)),
) func() watchdog.EventStore {
	return followingAs(func(
		m *watchdog.Memory, ctx context.Context, id string, ready func(), told func(watchdog.Event),
	) error {
		return m.Follow(ctx, id, ready, func(e watchdog.Event) { tell(m, e, told) })
	})
}

// leaking starts a goroutine for each follower, which ends when the store is closed.
type leaking struct {
	watchdog.Memory
	closed chan struct{}
}

func (l *leaking) Follow(ctx context.Context, id string, ready func(), told func(watchdog.Event)) error {
	go func() { <-l.closed }()
	return l.Memory.Follow(ctx, id, ready, told)
}

func (l *leaking) Close() error {
	close(l.closed)
	return nil
}
