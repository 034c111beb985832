package sessiontest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

var historyRules = []rule{
	{
		"cancels are counted by their reasons",
		"an operator wants to know what the guards stop runs for",
		func(ctx context.Context, store session.Store) error {
			events := cancelEvents(noon, noon, noon)
			events[1].Payload = []byte(`{"reason":"hold_exceeded","hold":"reason"}`)
			return counts(ctx, store, session.ByReason, events, session.CancelCount{Key: "hold_exceeded", Count: 1}, session.CancelCount{Key: "idle_timeout", Count: 2})
		},
	},
	{
		"cancels are counted by days of UTC",
		"days of each server's own zone do not add up",
		func(ctx context.Context, store session.Store) error {
			midnight := noon.Truncate(day)
			events := cancelEvents(midnight.Add(-time.Microsecond), midnight, midnight.Add(day-time.Microsecond))
			events[2].Timestamp = events[2].Timestamp.In(time.FixedZone("east", 5*3600))
			return counts(ctx, store, session.ByDay, events, session.CancelCount{Key: "2026-03-03", Count: 1}, session.CancelCount{Key: "2026-03-04", Count: 2})
		},
	},
	{
		"cancels are counted by the hosts of their sessions, and those without a session by none",
		"a host whose sessions stall is ill; and a guard whose runs have no rows cancels too",
		func(ctx context.Context, store session.Store) error {
			events := cancelEvents(noon, noon, noon, noon)
			for i, on := range []string{"host-2", "host-1", "host-2"} {
				if _, err := attach(ctx, store, session.Session{RunID: events[i].AggregateID, StartedAt: noon, Host: on}); err != nil {
					return err
				}
			}
			return counts(ctx, store, session.ByHost, events,
				session.CancelCount{Key: "", Count: 1}, session.CancelCount{Key: "host-1", Count: 1}, session.CancelCount{Key: "host-2", Count: 2})
		},
	},
	{
		"a stretch of time has its beginning and not its end",
		"of two stretches that follow each other, both would count a cancel between them, or neither",
		func(ctx context.Context, store session.Store) error {
			events := cancelEvents(noon.Add(-day-time.Microsecond), noon.Add(-day), noon.Add(day-time.Microsecond), noon.Add(day))
			for i := range events {
				events[i].Payload = fmt.Appendf(nil, `{"reason":"%d"}`, i)
			}
			return counts(ctx, store, session.ByReason, events, session.CancelCount{Key: "1", Count: 1}, session.CancelCount{Key: "2", Count: 1})
		},
	},
	{
		"only cancels are counted",
		"a warning ends nothing, and a host may keep events of its own under the same name",
		func(ctx context.Context, store session.Store) error {
			events := cancelEvents(noon, noon, noon)
			events[1].Type = watchdog.EventWarning
			events[2].AggregateType = "session"
			return counts(ctx, store, session.ByReason, events, session.CancelCount{Key: "idle_timeout", Count: 1})
		},
	},
	{
		"a stretch without cancels has no counts, and no error",
		"a quiet week is none of the store's faults",
		func(ctx context.Context, store session.Store) error {
			for _, by := range []session.Dimension{session.ByReason, session.ByDay, session.ByHost} {
				if err := counts(ctx, store, by, nil); err != nil {
					return err
				}
			}
			return nil
		},
	},
}

// cancelEvents makes a cancel at each time, of a run each.
func cancelEvents(times ...time.Time) []watchdog.Event {
	var events []watchdog.Event
	for i, at := range times {
		events = append(events, cancelEvent(fmt.Sprint("cancel-", i), fmt.Sprint("run-", i), at))
	}
	return events
}

// counts appends the events and checks what the history of two days around noon says.
func counts(ctx context.Context, store session.Store, by session.Dimension, events []watchdog.Event, want ...session.CancelCount) error {
	if err := store.Append(ctx, events...); err != nil {
		return err
	}
	got, err := store.History(ctx, session.HistoryQuery{From: noon.Add(-day), To: noon.Add(day), By: by})
	if err != nil {
		return fmt.Errorf("count by %s: %w", by, err)
	}
	slices.SortFunc(got, func(a, b session.CancelCount) int { return cmp.Or(strings.Compare(a.Key, b.Key), a.Count-b.Count) })
	if !slices.Equal(got, want) {
		return fmt.Errorf("counted by %s there are %+v, want %+v", by, got, want)
	}
	return nil
}
