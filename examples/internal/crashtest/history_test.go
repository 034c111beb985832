package crashtest_test

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// A history holds the events of one run, parsed without the library.
type history struct {
	events []watchdog.Event
	ends   map[string]int    // the number of cancels and completes, by the start of the window
	opened map[string]string // the start of the next window, by the start of the window before
	stops  map[string]string // the payload of the cancel, by the start of the window
}

// readHistory opens the database again, which must succeed, and closes it.
func readHistory(t *testing.T, path, id string) *history {
	t.Helper()
	store, err := openStore(path)
	require.NoError(t, err, "open the database")
	events, err := store.Read(context.Background(), watchdog.AggregateType, id)
	require.NoError(t, err)
	require.NoError(t, store.Close())
	h := &history{events, map[string]int{}, map[string]string{}, map[string]string{}}
	for _, e := range events {
		h.add(t, e)
	}
	return h
}

func (h *history) add(t *testing.T, e watchdog.Event) {
	t.Helper()
	var payload struct {
		Start    string `json:"session_started_at"`
		Previous string `json:"previous_started_at"`
	}
	require.NoError(t, json.Unmarshal(e.Payload, &payload))
	switch e.Type {
	case watchdog.EventCancel:
		h.ends[payload.Start]++
		h.stops[payload.Start] = string(e.Payload)
	case watchdog.EventComplete:
		h.ends[payload.Start]++
	case watchdog.EventResume:
		require.NotContains(t, h.opened, payload.Previous, "a window is followed by one window")
		h.opened[payload.Previous] = payload.Start
	}
}

// check follows the windows from the first one: each but the last has exactly one end, the last at most one, or
// exactly one if it is over.
func (h *history) check(t *testing.T, first string, over bool) {
	t.Helper()
	windows, start := 0, first
	for ; h.opened[start] != ""; start = h.opened[start] {
		require.Equalf(t, 1, h.ends[start], "ends of the window since %s, which is not the last", start)
		windows++
	}
	if over {
		require.Equalf(t, 1, h.ends[start], "ends of the last window, since %s, which is over", start)
	}
	require.LessOrEqual(t, h.ends[start], 1, "ends of the last window, since %s", start)
	assert.Len(t, h.opened, windows, "every resume follows a window of this run")
	assert.Len(t, h.ends, windows+h.ends[start], "every end is of a window of this run")
}

// continues checks that no earlier event is lost or changed.
func (h *history) continues(t *testing.T, before *history) {
	t.Helper()
	if before == nil {
		return
	}
	for _, e := range before.events {
		i := slices.IndexFunc(h.events, func(other watchdog.Event) bool { return other.ID == e.ID })
		require.GreaterOrEqual(t, i, 0, "event %s (%s) is still there", e.ID, e.Type)
		require.JSONEq(t, string(e.Payload), string(h.events[i].Payload))
	}
}

// written formats a time as events do.
func written(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }
