package record_test

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/record"
)

// TestEventID protects the IDs that every version and every process derives: a change would cancel a run twice.
func TestEventID(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 123456789, time.FixedZone("", 7200))
	start := event.Stamp(at).String()
	id := record.EventID("s-1", start, "runtime.watchdog.cancel", record.Once)
	require.Equal(t, "ffc26442-8998-59d3-96b0-80190d9794f8", id)
	require.Equal(t, id, record.EventID("s-1", event.Stamp(at.UTC().Truncate(time.Microsecond)).String(), "runtime.watchdog.cancel", record.Once))
	for name, other := range map[string]string{
		"run":    record.EventID("s-2", start, "runtime.watchdog.cancel", record.Once),
		"window": record.EventID("s-1", event.Stamp(at.Add(time.Microsecond)).String(), "runtime.watchdog.cancel", record.Once),
		"kind":   record.EventID("s-1", start, "runtime.watchdog.resume", record.Once),
		"name":   record.EventID("s-1", start, "runtime.watchdog.cancel", "twice"),
		"end":    record.EventID("s-1runtime", start, ".watchdog.cancel", record.Once),
	} {
		require.NotEqual(t, id, other, "another "+name)
	}
	first, second := record.EventID("s-1", start, "k", ""), record.EventID("s-1", start, "k", "")
	require.NotEqual(t, first, second, "without a name each is new")
	require.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, first)
}

func TestStamp(t *testing.T) {
	for text, want := range map[string]string{
		`"2026-05-01T12:00:00Z"`:                `"2026-05-01T12:00:00.000000Z"`,
		`"2026-05-01T14:00:00.1+02:00"`:         `"2026-05-01T12:00:00.100000Z"`,
		`"2026-05-01T12:00:00.123456789+00:00"`: `"2026-05-01T12:00:00.123456Z"`,
		`"2026-05-01T12:00:00"`:                 `"2026-05-01T12:00:00.000000Z"`,
		`"2026-05-01 12:00:00.5"`:               `"2026-05-01T12:00:00.500000Z"`,
		`"2026-05-01 14:00:00+02:00"`:           `"2026-05-01T12:00:00.000000Z"`,
	} {
		var s event.Stamp
		require.NoError(t, json.Unmarshal([]byte(text), &s))
		again, err := json.Marshal(s)
		require.NoError(t, err)
		require.Equal(t, want, string(again))
		require.Equal(t, want, `"`+s.String()+`"`)
	}
	var s event.Stamp
	require.ErrorContains(t, json.Unmarshal([]byte(`"yesterday"`), &s), "is not RFC 3339")
}

// TestNumber protects that numbers which other writers left in strings are read, and nothing else.
func TestNumber(t *testing.T) {
	for text, want := range map[string]float64{"3.5": 3.5, `"3.5"`: 3.5, `"1e3"`: 1000, "null": 0, `"-2"`: -2} {
		var s record.Seconds
		require.NoError(t, json.Unmarshal([]byte(text), &s), text)
		require.InDelta(t, want, float64(s), 0, text)
	}
	for _, text := range []string{`""`, `"long"`, `"NaN"`, `"Inf"`, "[1]", "true", "{}"} {
		var s record.Seconds
		require.Error(t, json.Unmarshal([]byte(text), &s), text)
		var c record.Count
		require.Error(t, json.Unmarshal([]byte(text), &c), text)
	}
	var c record.Count
	require.NoError(t, json.Unmarshal([]byte(`"2"`), &c))
	require.EqualValues(t, 2, c)
	require.Error(t, json.Unmarshal([]byte("1.5"), &c))
	require.Error(t, json.Unmarshal([]byte("1e12"), &c))
}

func TestSeconds(t *testing.T) {
	require.InDelta(t, 1.0, float64(record.WholeSeconds(2*time.Second-1)), 0)
	require.InDelta(t, 1.999999, float64(record.ExactSeconds(2*time.Second-1)), 1e-12)
	for _, d := range []time.Duration{0, time.Microsecond, time.Hour, 290 * 365 * 24 * time.Hour, math.MaxInt64} {
		require.InDelta(t, d, record.Duration(record.FloatSeconds(d)), 2e6)
	}
	require.Equal(t, time.Duration(math.MaxInt64), record.Duration(math.MaxFloat64))
}

func TestCode(t *testing.T) {
	require.Equal(t, "idle_exceeded", record.LimitReason("idle"))
	require.Equal(t, "watchdog_idle_exceeded", record.LimitCode("idle"))
	require.Equal(t, "idle_exceeded", record.Reason("watchdog_idle_exceeded"))
	require.Equal(t, "host_gone", record.Reason("host_gone"))
	for reason, code := range map[string]string{
		"idle_exceeded": "watchdog_idle_exceeded", "moon_exceeded": "watchdog_moon_exceeded", // of a later version
		"loop_detected": "watchdog_loop_detected", "idle_timeout": "watchdog_idle_timeout",
		"moon_detected": "moon_detected", "watchdog_idle": "watchdog_idle", "host_gone": "host_gone", "": "",
	} {
		require.Equal(t, code, record.Code(reason))
	}
}
