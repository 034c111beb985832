package eventtest_test

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/event/eventtest"
)

// A mapStore is a host's own store: it keeps events in a map.
type mapStore struct {
	mu     sync.Mutex
	events map[string]event.Event
}

func (s *mapStore) Append(ctx context.Context, events ...event.Event) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, e := range events { // all of them first: one invalid event refuses the batch
		if err := e.Validate(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.events == nil {
		s.events = map[string]event.Event{}
	}
	for _, e := range events {
		if _, known := s.events[e.ID]; known {
			continue // the first event of an ID stays
		}
		e.Payload = bytes.Clone(e.Payload)
		e.Timestamp = e.Timestamp.UTC().Truncate(time.Microsecond)
		s.events[e.ID] = e
	}
	return nil
}

func (s *mapStore) Read(ctx context.Context, aggregateType, aggregateID string) ([]event.Event, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []event.Event
	for _, e := range s.events {
		if e.AggregateType == aggregateType && e.AggregateID == aggregateID {
			e.Payload = bytes.Clone(e.Payload)
			found = append(found, e)
		}
	}
	slices.SortFunc(found, event.Event.Compare)
	return found, nil
}

// A host proves its own store. In a test it calls Run, which reports each rule as a subtest:
//
//	func TestStore(t *testing.T) {
//		eventtest.Run(t, func(t *testing.T) event.Store { return &mapStore{} })
//	}
//
// Elsewhere it calls Test.
func Example() {
	err := eventtest.Test(func() (event.Store, error) { return &mapStore{}, nil })
	fmt.Println("broken rules:", err)
	// Output: broken rules: <nil>
}
