package eventtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/event/eventtest"
)

// A coarseStore loses microseconds.
type coarseStore struct{ event.Memory }

func (s *coarseStore) Append(ctx context.Context, events ...event.Event) error {
	events = slices.Clone(events)
	for i := range events {
		events[i].Timestamp = events[i].Timestamp.Truncate(time.Millisecond)
	}
	return s.Memory.Append(ctx, events...)
}

// Test names the rules that a store breaks.
func ExampleTest() {
	err := eventtest.Test(func() (event.Store, error) { return &coarseStore{}, nil })
	if broken := new(eventtest.Violation); errors.As(err, &broken) {
		fmt.Println(broken.Rule)
	}
	// Output: times keep their microseconds, cut off below and not rounded, in any year, and are read in UTC
}
