package watchdog_test

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// noted returns an event of run-1 at a time.
func noted(id string, at time.Time) watchdog.Event {
	return watchdog.Event{
		ID: id, AggregateType: watchdog.AggregateType, AggregateID: "run-1", Type: "host.note",
		Payload: []byte("{}"), Timestamp: at,
	}
}

// A Decide that panics or ends its goroutine leaves the memory unlocked, and nothing of its transaction in it.
func TestMemoryDecideFails(t *testing.T) {
	at := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	for name, fail := range map[string]func(){"panics": func() { panic("flaw") }, "ends its goroutine": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			m := new(watchdog.Memory)
			first := &watchdog.Exchange{Decide: func([]watchdog.Event) []watchdog.Event {
				return []watchdog.Event{noted("a", at), noted("b", at)}
			}}
			failing := &watchdog.Exchange{Decide: func([]watchdog.Event) []watchdog.Event { fail(); return nil }}
			var call sync.WaitGroup
			call.Go(func() {
				defer func() { _ = recover() }()
				_ = m.Transact(t.Context(), first, failing)
			})
			call.Wait()
			events, err := m.Read(t.Context(), watchdog.AggregateType, "run-1")
			require.NoError(t, err)
			assert.Empty(t, events)
			assert.Nil(t, first.Kept)
			require.NoError(t, m.Transact(t.Context(), first), "the IDs are free again")
			assert.Len(t, first.Kept, 2)
		})
	}
}

// Since is cut off as timestamps are: an event that was appended at that time is selected.
func TestMemorySinceMicrosecond(t *testing.T) {
	m, at := new(watchdog.Memory), time.Date(2026, 3, 4, 12, 0, 0, 700, time.UTC)
	require.NoError(t, m.Append(t.Context(), noted("a", at)))
	events, err := m.Select(t.Context(), watchdog.Selection{
		AggregateType: watchdog.AggregateType, AggregateID: "run-1", Since: at,
	})
	require.NoError(t, err)
	assert.Len(t, events, 1)
}
