package watchdog

import (
	"context"
	"encoding/json"
	"slices"
)

// Layers implements [FeedStore]. It looks at every event.
func (m *Memory) Layers(ctx context.Context, parent string) ([]string, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var layers []string
	for of, events := range m.events {
		if of.kind == AggregateType && slices.ContainsFunc(events, func(e *Event) bool { return e.names(parent) }) {
			layers = append(layers, of.id)
		}
	}
	slices.Sort(layers)
	return layers, nil
}

// names reports whether the payload names the parent. It needs a map: the fields of a struct ignore case.
func (e Event) names(parent string) bool {
	var keys map[string]json.RawMessage
	var named *string
	return json.Unmarshal(e.Payload, &keys) == nil && json.Unmarshal(keys["parent"], &named) == nil &&
		named != nil && *named == parent
}

// A follower is one call of Follow. The memory's mutex guards waiting.
type follower struct {
	aggregateID string        // empty for all
	waiting     []*Event      // events that Follow has not told yet
	wake        chan struct{} // has room for one
}

// Follow implements [FeedStore]. It calls told with no lock held, and keeps what is stored meanwhile, without a limit.
// It starts no goroutine.
func (m *Memory) Follow(ctx context.Context, aggregateID string, ready func(), told func(Event)) error {
	f := &follower{aggregateID: aggregateID, wake: make(chan struct{}, 1)}
	m.addFollower(f)
	defer m.removeFollower(f)
	ready()
	for {
		select {
		case <-f.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		for _, e := range m.takeWaiting(f) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			told(e)
		}
	}
}

func (m *Memory) addFollower(f *follower) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.followers == nil {
		m.followers = map[*follower]struct{}{}
	}
	m.followers[f] = struct{}{}
}

func (m *Memory) removeFollower(f *follower) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.followers, f)
}

// takeWaiting returns copies of the events to tell, and clears them.
func (m *Memory) takeWaiting(f *follower) []Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	waiting := f.waiting
	f.waiting = nil
	return cloneEvents(waiting)
}

// notify has the followers tell of stored events, without waiting for them. The caller holds the mutex.
func (m *Memory) notify(stored []Event) {
	for f := range m.followers {
		for _, e := range stored {
			if f.wants(e) {
				f.waiting = append(f.waiting, &e)
			}
		}
		if len(f.waiting) > 0 {
			select {
			case f.wake <- struct{}{}:
			default:
			}
		}
	}
}

func (f *follower) wants(e Event) bool {
	return e.AggregateType == AggregateType && (f.aggregateID == "" || f.aggregateID == e.AggregateID)
}
