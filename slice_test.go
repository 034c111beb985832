package watchdog_test

import (
	"fmt"
	"math"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
)

// ofEachKind has a number of each kind.
func ofEachKind(n func(kind int64) int64) (t watchdog.Totals) {
	fields := reflect.ValueOf(&t).Elem()
	for i := range fields.NumField() {
		fields.Field(i).SetInt(n(int64(i)))
	}
	return t
}

// endless limits nothing, and upward and tens are of each kind.
var (
	endless = ofEachKind(func(int64) int64 { return watchdog.NoLimit })
	upward  = ofEachKind(func(kind int64) int64 { return kind + 1 })
	tens    = ofEachKind(func(kind int64) int64 { return 10 * (kind + 1) })
)

func TestSliceValidate(t *testing.T) {
	valid := watchdog.Slice{
		ID: strings.Repeat("é", watchdog.MaxEventID), Scope: strings.Repeat("語", watchdog.MaxAggregateID),
		Period: watchdog.PeriodDay, Zone: "Europe/Berlin", Currency: "EUR",
		Least: watchdog.Totals{Cost: 1}, Limit: endless,
	}
	require.NoError(t, valid.Validate())
	require.NoError(t, watchdog.Slice{ID: "a", Scope: "b"}.Validate(), "the zero value of every other field")
	for name, test := range map[string]struct {
		spoil func(s *watchdog.Slice)
		says  string
	}{
		"no ID":                  {func(s *watchdog.Slice) { s.ID = "" }, "ID"},
		"a long ID":              {func(s *watchdog.Slice) { s.ID += "x" }, "ID"},
		"an ID with a NUL":       {func(s *watchdog.Slice) { s.ID = "a\x00b" }, "ID"},
		"no scope":               {func(s *watchdog.Slice) { s.Scope = "" }, "Scope"},
		"a blank scope":          {func(s *watchdog.Slice) { s.Scope = " " }, "Scope"},
		"a long scope":           {func(s *watchdog.Slice) { s.Scope += "x" }, "Scope"},
		"a scope with a newline": {func(s *watchdog.Slice) { s.Scope = "a\nb" }, "Scope"},
		"a long currency":        {func(s *watchdog.Slice) { s.Currency = "seventeen letters" }, "EUR"},
		"a blank currency":       {func(s *watchdog.Slice) { s.Currency = " " }, "EUR"},
		"a negative least":       {func(s *watchdog.Slice) { s.Least.ToolCalls = -1 }, "-1 tool_calls"},
		"a negative limit":       {func(s *watchdog.Slice) { s.Limit.Cost = -2 }, "1 cost of -2"},
		"no such period":         {func(s *watchdog.Slice) { s.Period = "week" }, `period "week": use "hour", "day" or "month"`},
		"no such zone":           {func(s *watchdog.Slice) { s.Zone = "Europe/Atlantis" }, "Europe/Atlantis"},
		"a zone of the machine":  {func(s *watchdog.Slice) { s.Zone = "Local" }, "Local"},
		"a zone that is a path":  {func(s *watchdog.Slice) { s.Zone = "../../etc/passwd" }, "IANA"},
	} {
		t.Run(name, func(t *testing.T) {
			s := valid
			test.spoil(&s)
			err := s.Validate()
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, test.says)
		})
	}
}

func TestSliceWindowAt(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 30, 0, 0, time.FixedZone("of the server", 3600)) // 23:30 UTC
	names := map[string]bool{}
	for _, period := range []watchdog.Period{
		watchdog.PeriodNone, watchdog.PeriodHour, watchdog.PeriodDay, watchdog.PeriodMonth,
	} {
		name, ends := watchdog.Slice{Period: period, Zone: "Africa/Lagos"}.WindowAt(now)
		names[name] = true
		require.Equal(t, period == watchdog.PeriodNone, ends.IsZero())
		require.Less(t, len(name), 64)
	}
	require.Equal(t, map[string]bool{
		"": true, "hour 2026-02-28T23:00:00Z": true, "day 2026-02-28T23:00:00Z": true, "month 2026-02-28T23:00:00Z": true,
	}, names, "an hour, a day and a month that begin together are three windows")
	_, ends := watchdog.Slice{Period: watchdog.PeriodDay, Zone: "Europe/Berlin"}.WindowAt(
		time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC))
	require.Equal(t, time.Date(2026, 3, 29, 22, 0, 0, 0, time.UTC), ends, "a day of 23 hours")
	name, _ := watchdog.Slice{Period: watchdog.PeriodDay}.WindowAt(now)
	require.Equal(t, "day 2026-02-28T00:00:00Z", name, "no zone is UTC")
}

func TestSliceCurrency(t *testing.T) {
	euros, none := watchdog.Slice{ID: "a", Scope: "s", Currency: "EUR"}, watchdog.Slice{ID: "a", Scope: "s"}
	for _, test := range []struct {
		slice       watchdog.Slice
		known, want string
	}{
		{euros, "", "EUR"}, {euros, "EUR", "EUR"}, {none, "", ""}, {none, "EUR", "EUR"},
	} {
		got, err := test.slice.CurrencyOf(test.known)
		require.NoError(t, err)
		require.Equal(t, test.want, got)
	}
	_, err := euros.CurrencyOf("USD")
	require.ErrorIs(t, err, watchdog.ErrInvalid)
	require.ErrorContains(t, err, "USD")
	require.NoError(t, none.CheckScope("s"))
	require.ErrorIs(t, none.CheckScope("S"), watchdog.ErrInvalid)
}

func TestGrantUntil(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	require.Equal(t, time.Minute, watchdog.Grant{}.Until(now.Add(time.Minute), now).Ends)
	require.Zero(t, watchdog.Grant{}.Until(now.Add(-time.Minute), now).Ends)
	require.EqualValues(t, watchdog.NoLimit, watchdog.Grant{}.Until(time.Time{}, now).Ends)
}

func TestTotals(t *testing.T) {
	each := upward
	require.Equal(t, ofEachKind(func(kind int64) int64 { return 2 * (kind + 1) }), each.Add(each))
	require.Equal(t, each, each.Add(each).Sub(each))
	require.Equal(t, watchdog.Totals{Turns: -3}, watchdog.Totals{}.Sub(watchdog.Totals{Turns: 3}))
	require.Equal(t, endless, endless.Add(each))
	require.Equal(t, endless, endless.Sub(each))
	require.Equal(t, watchdog.Totals{Cost: watchdog.NoLimit},
		watchdog.Totals{Cost: math.MaxInt64 - 2}.Add(watchdog.Totals{Cost: 3}))
}

func TestGiveBack(t *testing.T) {
	charged, granted := tens, upward
	left, err := charged.GiveBack(granted, granted)
	require.NoError(t, err)
	require.Equal(t, charged.Sub(granted), left)
	left, err = charged.GiveBack(granted, watchdog.Totals{})
	require.NoError(t, err)
	require.Equal(t, charged, left)
	for name, unused := range map[string]watchdog.Totals{
		"8 tool_calls": {ToolCalls: 8}, "-1 cost": {Cost: -1}, "2 input_tokens": {InputTokens: 2},
	} {
		left, err = charged.GiveBack(granted, unused)
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, name)
		require.Equal(t, charged, left)
	}
}

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
			require.Empty(t, events)
			require.Nil(t, first.Kept)
			require.NoError(t, m.Transact(t.Context(), first), "the IDs are free again")
			require.Len(t, first.Kept, 2)
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
	require.Len(t, events, 1)
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
			require.Equal(t, ends, take("first of "+string(period), period).Ends, period)
		}
		time.Sleep(30*time.Minute - time.Nanosecond)
		require.Equal(t, time.Nanosecond, take("first of hour", watchdog.PeriodHour).Ends)
		require.EqualValues(t, 40, take("second", watchdog.PeriodHour).Charged.Requests)
		refused := take("third", watchdog.PeriodHour)
		const hour = "hour 1999-12-31T23:30:00Z"
		require.Equal(t, watchdog.Grant{Charged: watchdog.Totals{Requests: 40}, Window: hour, Ends: 1}, refused)
		time.Sleep(time.Nanosecond)
		require.Equal(t, watchdog.Grant{
			Fits: true, Granted: watchdog.Totals{Requests: 20}, Charged: watchdog.Totals{Requests: 40}, Window: hour,
		}, take("first of hour", watchdog.PeriodHour), "it has ended")
		third := take("third", watchdog.PeriodHour)
		require.EqualValues(t, 20, third.Charged.Requests)
		require.Equal(t, time.Hour, third.Ends)
		require.NoError(t, m.Return(t.Context(), "second", watchdog.Totals{Requests: 20}))
		require.EqualValues(t, 20, take("third", watchdog.PeriodHour).Charged.Requests, "the hour before got it back")
		require.EqualValues(t, 20, take("first of hour", watchdog.PeriodHour).Charged.Requests)
		require.EqualValues(t, 40, take("second of the day", watchdog.PeriodDay).Charged.Requests)
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
