package watchdog_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
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

// A window ends at its instant, and the next one begins at zero. What was taken before belongs to the one before.
func TestMemoryWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it is midnight of the first of January 2000, UTC
		m := new(watchdog.Memory)
		take := func(id string, period watchdog.Period) watchdog.Grant {
			t.Helper()
			g, err := m.Take(t.Context(), watchdog.Slice{
				ID: id, Scope: "tenant-1", Period: period, Zone: "Asia/Kolkata",
				Least: watchdog.Totals{Requests: 20}, Limit: watchdog.Totals{Requests: 50},
			})
			require.NoError(t, err)
			return g
		}
		until := map[watchdog.Period]time.Duration{
			watchdog.PeriodHour: 30 * time.Minute, watchdog.PeriodDay: 18*time.Hour + 30*time.Minute,
			watchdog.PeriodMonth: 30*24*time.Hour + 18*time.Hour + 30*time.Minute, watchdog.PeriodNone: watchdog.NoLimit,
		}
		for period, ends := range until {
			assert.Equal(t, ends, take("first of "+string(period), period).Ends, period)
		}
		time.Sleep(30*time.Minute - time.Nanosecond)
		assert.Equal(t, time.Nanosecond, take("first of hour", watchdog.PeriodHour).Ends)
		assert.EqualValues(t, 40, take("second", watchdog.PeriodHour).Charged.Requests)
		refused := take("third", watchdog.PeriodHour)
		const hour = "hour 1999-12-31T23:30:00Z"
		assert.Equal(t, watchdog.Grant{Charged: watchdog.Totals{Requests: 40}, Window: hour, Ends: 1}, refused)
		time.Sleep(time.Nanosecond)
		assert.Equal(t, watchdog.Grant{
			Fits: true, Granted: watchdog.Totals{Requests: 20}, Charged: watchdog.Totals{Requests: 40}, Window: hour,
		}, take("first of hour", watchdog.PeriodHour), "it has ended")
		third := take("third", watchdog.PeriodHour)
		assert.EqualValues(t, 20, third.Charged.Requests)
		assert.Equal(t, time.Hour, third.Ends)
		require.NoError(t, m.Return(t.Context(), "second", watchdog.Totals{Requests: 20}))
		assert.EqualValues(t, 20, take("third", watchdog.PeriodHour).Charged.Requests, "the hour before got it back")
		assert.EqualValues(t, 20, take("first of hour", watchdog.PeriodHour).Charged.Requests)
		assert.EqualValues(t, 40, take("second of the day", watchdog.PeriodDay).Charged.Requests)
	})
}

// TestMemoryForgetsWindows protects a process that runs for long from all the hours that it has counted.
func TestMemoryForgetsWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := new(watchdog.Memory)
		take := func(id string, period watchdog.Period) {
			t.Helper()
			_, err := m.Take(t.Context(), watchdog.Slice{
				ID: id, Scope: "tenant-1", Period: period, Least: watchdog.Totals{Requests: 20},
				Limit: watchdog.Totals{Requests: 50},
			})
			require.NoError(t, err)
		}
		give := func(id string) error { return m.Return(t.Context(), id, watchdog.Totals{}) }
		take("of the first hour", watchdog.PeriodHour)
		take("of the month", watchdog.PeriodMonth)
		take("for ever", watchdog.PeriodNone)
		for hour := range 24 * 20 {
			time.Sleep(time.Hour)
			take(fmt.Sprint(hour), watchdog.PeriodHour)
			if hour < 24 {
				require.NoError(t, give("of the first hour"), "for a day after its end, in hour %d", hour)
			}
		}
		require.ErrorIs(t, give("of the first hour"), watchdog.ErrInvalid)
		require.Equal(t, 1+25+2, m.KeptSlices())
		require.NoError(t, give("of the month"))
		require.NoError(t, give("for ever"))
	})
}
