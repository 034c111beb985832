package replay_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/replay"
)

type signals = []watchdog.Signal

func TestBadTrace(t *testing.T) {
	attach := watchdog.Signal{Kind: watchdog.SignalAttach}
	hold := watchdog.Signal{Kind: watchdog.SignalHold, At: minute, Key: "tool", Length: minute}
	for _, c := range []struct {
		name string
		bad  signals // the last is the flaw
		want string
	}{
		{"an unknown kind", signals{attach, {Kind: "nap"}}, "signal 1 (nap at 0s) is of no kind"},
		{"no kind", signals{{}}, "signal 0 ( at 0s)"},
		{"a later version", signals{{Kind: watchdog.SignalAttach, Version: watchdog.TraceVersion + 1}},
			"signal 0 (attach at 0s) is of version 3 of traces, and this one reads up to 2; " +
				"replay it with the release of this module that wrote it"},
		{"a time before the window", signals{{Kind: watchdog.SignalAttach, At: -1}}, "signal 0 (attach at -1ns)"},
		{"a time that never comes",
			signals{{Kind: watchdog.SignalAttach, At: math.MaxInt64}}, "is later than a window can last"},
		{"a time that goes back",
			signals{attach, hold, {Kind: watchdog.SignalActivity, At: minute - 1}}, "earlier than"},
		{"an attach that goes back", signals{attach, hold, attach}, "signal 2 (attach at 0s) is earlier than"},
		{"a key that is held", signals{attach, hold, hold}, `signal 2 (hold at 1m0s) opens "tool", which is held`},
		{"a key that is not held", signals{attach, {Kind: watchdog.SignalRelease, Key: "tool"}}, `releases "tool"`},
		{"a serial that is not held",
			signals{attach, hold, {Kind: watchdog.SignalRelease, At: minute, Key: "tool", Serial: 1}}, `releases "tool"`},
		{"a hold that an earlier attach had", signals{
			attach, hold, {Kind: watchdog.SignalAttach, At: minute}, {Kind: watchdog.SignalRelease, At: minute, Key: "tool"},
		}, "signal 3"},
		{"a hold without a cap", signals{attach, {Kind: watchdog.SignalHold, Key: "tool"}}, "has no cap"},
		{"a negative cap", signals{attach, {Kind: watchdog.SignalHold, Key: "tool", Length: -1}}, "the length -1ns"},
		{"a negative idle",
			signals{attach, {Kind: watchdog.SignalHold, Key: "tool", Length: 1, Idle: -1}}, "the idle -1ns"},
		{"a key that is taken over and not held",
			signals{attach, {Kind: watchdog.SignalTakeOver, Key: "tool"}}, `takes over "tool", which is not held`},
		{"a negative extension", signals{attach, {Kind: watchdog.SignalExtend, Length: math.MinInt64}}, "the length"},
		{"a negative number of warnings", signals{{Kind: watchdog.SignalAttach, Warned: -1}}, "has -1 warnings"},
		{"a signal after the end",
			signals{attach, {Kind: watchdog.SignalEnd}, {Kind: watchdog.SignalActivity}}, "after the run's end"},
	} {
		t.Run(c.name+" is an error that names the position", func(t *testing.T) {
			for _, observeOnly := range []bool{false, true} {
				got, err := replay.Run(watchdog.Budget{WallClock: time.Second}, c.bad, observeOnly)
				require.ErrorIs(t, err, watchdog.ErrInvalid)
				require.ErrorContains(t, err, c.want)
				require.Empty(t, got)
			}
		})
	}
	t.Run("under limits that cannot be is an error", func(t *testing.T) {
		_, err := replay.Run(watchdog.Budget{Idle: -1}, signals{attach}, false)
		require.ErrorIs(t, err, watchdog.ErrInvalid)
	})
	t.Run("with more decisions than anybody reads is an error, not a wait", func(t *testing.T) {
		day := signals{attach, {Kind: watchdog.SignalEnd, At: 24 * time.Hour}}
		endless := watchdog.Budget{Idle: time.Nanosecond, Ladders: watchdog.Ladders{Idle: many(watchdog.DirectiveRetry, 200_000)}}
		_, err := replay.Run(endless, day, true)
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, err, "before signal 1 (end at 24h0m0s)")
		endless.Idle = time.Second
		_, err = replay.Run(endless, day, true)
		require.NoError(t, err, "one each second, all day, can be read")
	})
}

// FuzzTrace checks that a file of signals, one a line, is decided or refused, whatever is in it and by what limits.
func FuzzTrace(f *testing.F) {
	f.Add([]byte(`{"kind":"attach","version":2,"at":0,"busy":true}
{"kind":"spent","at":0,"usage":{"limit":"requests","used":3,"allowed":9},"rung":1,"more":2}
{"kind":"spent","at":0,"usage":{"limit":"loop","used":3,"allowed":0},"rung":1}
{"kind":"held","at":0,"key":"a","length":60000000000}
{"kind":"attached","at":5}
{"kind":"admit","at":6,"serial":1,"amount":{"requests":4,"cost":{"micros":7,"currency":"EUR"}}}
{"kind":"settle","at":7,"serial":1,"amount":{"requests":9,"result":"error"}}
{"kind":"admit","at":7,"serial":2,"amount":{"requests":9},"not_made":true}
{"kind":"loop","at":8,"rung":1,"usage":{"limit":"loop","used":4,"allowed":0,"pattern":"p"}}
{"kind":"incomplete","at":9,"from":7}
{"kind":"not_busy","at":60000000001,"from":5,"rung":1}
{"kind":"unpause","at":60000000002,"key":"p","from":9,"not_made":true,"usage":{"limit":"hold","used":0,"allowed":60000000000}}
{"kind":"extend","at":60000000002,"not_made":true,"usage":{"limit":"requests","used":9,"allowed":11},"more":2}
{"kind":"attach","at":60000000003,"budget":{"WallClock":5}}
{"kind":"end","at":9223372036854775806}`), int64(time.Hour), int64(time.Minute), true)
	f.Add([]byte(`{"kind":"attach","version":2,"at":9223372036854775807}`), int64(1), int64(math.MaxInt64), true)
	f.Add([]byte(`{"kind":"attach","length":9223372036854775807}
{"kind":"hold","at":0,"key":"a","length":1}
{"kind":"hold","at":0,"key":"a","length":1}
{"kind":"extend","at":1,"length":9223372036854775807}
{"kind":"end","at":9223372036854775806}`), int64(time.Hour), int64(time.Minute), false)
	budget := watchdog.Budget{
		NoProgress: 2 * time.Minute, Safety: time.Hour, Reserve: time.Minute,
		FromFirstSign: true, FirstSign: 3 * time.Minute,
		Spend: watchdog.Spend{
			Requests: 9, Tokens: 100, Cost: watchdog.Money{Micros: 50, Currency: "EUR"}, Errors: 1, CallInput: 5,
			Reserve: watchdog.Totals{Requests: 2},
		},
		Ladders: watchdog.Ladders{
			Idle: many(watchdog.DirectiveWait, 1), NoProgress: many(watchdog.DirectiveRetry, 2),
			Requests: many(watchdog.DirectiveRetry, 1), Hold: many(watchdog.DirectiveUnstuck, 1),
		},
	}
	f.Fuzz(func(t *testing.T, text []byte, wall, idle int64, observeOnly bool) {
		budget.WallClock, budget.Idle = time.Duration(wall), time.Duration(idle)
		var trace []watchdog.Signal
		for line := range bytes.Lines(text) {
			var s watchdog.Signal
			if json.Unmarshal(line, &s) != nil {
				t.Skip()
			}
			trace = append(trace, s)
		}
		got, err := replay.Run(budget, trace, observeOnly)
		if err != nil {
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.Empty(t, got)
		}
		require.True(t, slices.IsSortedFunc(got, func(a, b replay.Decision) int { return cmp.Compare(a.At, b.At) }))
	})
}
