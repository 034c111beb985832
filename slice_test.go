package watchdog_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
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
		assert.Equal(t, period == watchdog.PeriodNone, ends.IsZero())
		assert.Less(t, len(name), 64)
	}
	assert.Equal(t, map[string]bool{
		"": true, "hour 2026-02-28T23:00:00Z": true, "day 2026-02-28T23:00:00Z": true, "month 2026-02-28T23:00:00Z": true,
	}, names, "an hour, a day and a month that begin together are three windows")
	_, ends := watchdog.Slice{Period: watchdog.PeriodDay, Zone: "Europe/Berlin"}.WindowAt(
		time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC))
	assert.Equal(t, time.Date(2026, 3, 29, 22, 0, 0, 0, time.UTC), ends, "a day of 23 hours")
	name, _ := watchdog.Slice{Period: watchdog.PeriodDay}.WindowAt(now)
	assert.Equal(t, "day 2026-02-28T00:00:00Z", name, "no zone is UTC")
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
		assert.Equal(t, test.want, got)
	}
	_, err := euros.CurrencyOf("USD")
	require.ErrorIs(t, err, watchdog.ErrInvalid)
	require.ErrorContains(t, err, "USD")
	require.NoError(t, none.CheckScope("s"))
	require.ErrorIs(t, none.CheckScope("S"), watchdog.ErrInvalid)
}

func TestGrantUntil(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	assert.Equal(t, time.Minute, watchdog.Grant{}.Until(now.Add(time.Minute), now).Ends)
	assert.Zero(t, watchdog.Grant{}.Until(now.Add(-time.Minute), now).Ends)
	assert.EqualValues(t, watchdog.NoLimit, watchdog.Grant{}.Until(time.Time{}, now).Ends)
}

func TestTotals(t *testing.T) {
	each := upward
	assert.Equal(t, ofEachKind(func(kind int64) int64 { return 2 * (kind + 1) }), each.Add(each))
	assert.Equal(t, each, each.Add(each).Sub(each))
	assert.Equal(t, watchdog.Totals{Turns: -3}, watchdog.Totals{}.Sub(watchdog.Totals{Turns: 3}))
	assert.Equal(t, endless, endless.Add(each))
	assert.Equal(t, endless, endless.Sub(each))
	assert.Equal(t, watchdog.Totals{Cost: watchdog.NoLimit},
		watchdog.Totals{Cost: math.MaxInt64 - 2}.Add(watchdog.Totals{Cost: 3}))
}

func TestGiveBack(t *testing.T) {
	charged, granted := tens, upward
	left, err := charged.GiveBack(granted, granted)
	require.NoError(t, err)
	assert.Equal(t, charged.Sub(granted), left)
	left, err = charged.GiveBack(granted, watchdog.Totals{})
	require.NoError(t, err)
	assert.Equal(t, charged, left)
	for name, unused := range map[string]watchdog.Totals{
		"8 tool_calls": {ToolCalls: 8}, "-1 cost": {Cost: -1}, "2 input_tokens": {InputTokens: 2},
	} {
		left, err = charged.GiveBack(granted, unused)
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, name)
		assert.Equal(t, charged, left)
	}
}
