package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
)

var orderRules = []rule{
	{
		"events are ordered by time, in whatever order they were appended",
		"a run's window is computed from its events: a cancel that is read after its resume cancels the resumed run again",
		func(ctx context.Context, store watchdog.EventStore) error {
			return errors.Join(
				put(ctx, store, numbered("b", 3), numbered("d", 1)),
				put(ctx, store, numbered("a", 4), numbered("c", 2)),
				isOrdered(ctx, store, "d", "c", "b", "a"),
			)
		},
	},
	{
		"events of one microsecond are ordered by ID, byte by byte",
		"every reader, with every store and every locale, must compute the same history from the same events",
		func(ctx context.Context, store watchdog.EventStore) error {
			var events []watchdog.Event
			for i, id := range []string{"é", "a", "_", "B", "b", "-", "A", "10", "9"} {
				e := numbered(id, 1)
				e.Timestamp = e.Timestamp.Add(time.Duration(9-i) * 50 * time.Nanosecond)
				events = append(events, e)
			}
			return errors.Join(
				put(ctx, store, events...),
				isOrdered(ctx, store, "-", "10", "9", "A", "B", "_", "a", "b", "é"),
			)
		},
	},
}

func isOrdered(ctx context.Context, store watchdog.EventStore, want ...string) error {
	events, err := get(ctx, store, runID)
	if err != nil {
		return err
	}
	if got := ids(events); !slices.Equal(got, want) {
		return fmt.Errorf("read %q, want the order %q", got, want)
	}
	return nil
}
