package sessiontest

import (
	"fmt"
	"maps"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/session"
)

var historyRules = []rule{
	{"cancels are counted by their reasons, and nothing else is counted",
		"an operator wants to know why runs are stopped; and a host may have events of its own with the same name",
		func(e *env) {
			events := cancelEvents(noon, noon, noon, noon, noon)
			events[1].Payload = []byte(`{"reason":"hold_exceeded","hold":"reason"}`)
			events[3].Type, events[4].AggregateType = watchdog.EventWarning, "session"
			counts(e, session.ByReason, events, map[string]int{"hold_exceeded": 1, "idle_timeout": 2})
		}},
	{"cancels are counted by days of UTC, from the start of a period to before its end",
		"days in the zone of each server cannot be added up, and no cancel may be counted in two periods, or in none",
		func(e *env) {
			midnight := noon.Truncate(day)
			events := cancelEvents(midnight.Add(-time.Microsecond), midnight, midnight.Add(day-time.Microsecond),
				noon.Add(-day-time.Microsecond), noon.Add(-day), noon.Add(day-time.Microsecond), noon.Add(day))
			events[2].Timestamp = events[2].Timestamp.In(time.FixedZone("east", 5*3600))
			counts(e, session.ByDay, events, map[string]int{"2026-03-03": 2, "2026-03-04": 2, "2026-03-05": 1})
		}},
	{"cancels are counted by the hosts of their sessions, and under an empty host if there is no session",
		"a host whose sessions stall has a problem; and runs without rows are cancelled too", func(e *env) {
			events := cancelEvents(noon, noon, noon, noon)
			for i, on := range []string{"host-2", "host-1", "host-2"} {
				attach(e, row{RunID: events[i].AggregateID, StartedAt: noon, Host: on})
			}
			counts(e, session.ByHost, events, map[string]int{"": 1, "host-1": 1, "host-2": 2})
		}},
	{"a period without cancels has no counts, and no error",
		"a quiet week is not an error", func(e *env) {
			for _, by := range []session.Dimension{session.ByReason, session.ByDay, session.ByHost} {
				counts(e, by, nil, nil)
			}
		}},
}

// cancelEvents returns a cancel at each time, each of another run.
func cancelEvents(times ...time.Time) (events []watchdog.Event) {
	for i, at := range times {
		events = append(events, cancelEvent(fmt.Sprint("cancel-", i), fmt.Sprint("run-", i), at))
	}
	return events
}

// counts appends the events and checks the history of two days around noon.
func counts(e *env, by session.Dimension, events []watchdog.Event, want map[string]int) {
	appends(e, events...)
	got, err := e.Store.History(e.Ctx, session.HistoryQuery{From: noon.Add(-day), To: noon.Add(day), By: by})
	must(err, "count by %s", by)
	byKey := map[string]int{}
	for _, n := range got {
		byKey[n.Key] = n.Count
	}
	require(len(got) == len(want) && maps.Equal(byKey, want), "counted by %s there are %+v, want %v", by, got, want)
}
