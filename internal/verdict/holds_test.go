package verdict_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

func toolHold(serial int) verdict.HoldID { return verdict.HoldID{Key: "tool", Serial: serial} }

// climb gives the verdict of each instant and applies it.
func climb(t *testing.T, limits verdict.Limits, seen *verdict.Snapshot, instants ...time.Duration) (all []verdict.Verdict) {
	t.Helper()
	for _, now := range instants {
		v := verdict.Judge(limits, *seen, now)
		all = append(all, v)
		seen.Apply(v, now)
	}
	return all
}

func TestHolds(t *testing.T) {
	limits := others(verdict.Limits{
		Idle: hour, Ladders: verdict.Ladders{verdict.Hold: []verdict.Directive{verdict.DirectWait, verdict.DirectRetry}},
	})
	t.Run("two of one key are two holds, each with its own cap and ladder", func(t *testing.T) {
		seen := verdict.Snapshot{Signs: &verdict.Signs{}}
		seen.Signs.Open(toolHold(1), verdict.HoldLimits{Cap: 10}, 0)
		seen.Signs.Open(toolHold(2), verdict.HoldLimits{Cap: 15}, 0)
		var serials, rungs []int
		for _, v := range climb(t, limits, &seen, 11, 16, 22) {
			serials, rungs = append(serials, v.HoldSerial), append(rungs, v.Rung)
		}
		require.Equal(t, []int{1, 2, 1}, serials)
		require.Equal(t, []int{1, 1, 2}, rungs)
		require.True(t, seen.Signs.Close(toolHold(1), 23))
		require.False(t, seen.Signs.Close(toolHold(1), 23), "it is closed; the other is not")
		require.True(t, seen.Signs.Held(toolHold(2)))
		require.Equal(t, verdict.Verdict{Next: 32}, verdict.Judge(limits, seen, 23))
	})
	t.Run("of those that expire at one instant the one that was opened first trips first", func(t *testing.T) {
		seen := verdict.Snapshot{Signs: &verdict.Signs{}}
		for serial := range 9 {
			seen.Signs.Open(toolHold(serial), verdict.HoldLimits{Cap: 10}, 0)
		}
		for serial := range 9 {
			require.Equal(t, serial, climb(t, limits, &seen, 11)[0].HoldSerial)
		}
	})
	t.Run("a serial that is given out belongs to no open hold", func(t *testing.T) {
		signs := &verdict.Signs{}
		for now := range time.Duration(100) {
			id := toolHold(signs.Holds.NextSerial())
			require.Positive(t, id.Serial)
			require.False(t, signs.Held(id))
			if signs.Open(id, verdict.HoldLimits{Cap: 1}, now); now%3 == 0 {
				signs.Close(toolHold(1), now)
			}
		}
	})
	t.Run("of many that were open at once nothing is kept", func(t *testing.T) {
		signs := &verdict.Signs{}
		for serial := range 100 {
			signs.Open(toolHold(serial), verdict.HoldLimits{Cap: 10}, 0)
		}
		for serial := range 100 {
			require.NotNil(t, signs.Holds)
			signs.Close(toolHold(serial), 5)
		}
		require.Nil(t, signs.Holds)
	})
	t.Run("without any the limits begin at the last one's close", func(t *testing.T) {
		for name, end := range map[string]func(signs *verdict.Signs){
			"closed one by one": func(signs *verdict.Signs) { signs.Close(toolHold(1), 5); signs.Close(toolHold(2), 7) },
			"closed at once":    func(signs *verdict.Signs) { signs.CloseAll(7) },
		} {
			seen := verdict.Snapshot{Signs: &verdict.Signs{}}
			seen.Signs.Open(toolHold(1), verdict.HoldLimits{Cap: 10}, 0)
			seen.Signs.Open(toolHold(2), verdict.HoldLimits{Cap: 10}, 0)
			end(seen.Signs)
			require.Zero(t, seen.Signs.Holds.Len(), name)
			require.Empty(t, seen.Signs.Holds.Owners(), name)
			require.Equal(t, hour+8, verdict.Judge(limits, seen, 7).Next, name)
		}
	})
}

func TestHoldsIdle(t *testing.T) {
	never := verdict.Never
	idle := func(d time.Duration) verdict.HoldLimits { return verdict.HoldLimits{Cap: never, Idle: d} }
	t.Run("silence that is as long as the hold allows is not exceeded, a nanosecond more is", func(t *testing.T) {
		seen := verdict.Snapshot{Signs: &verdict.Signs{}}
		seen.Signs.Open(toolHold(1), idle(10), 5)
		seen.Signs.Signal(false, 7)
		require.Equal(t, verdict.Verdict{Next: 18}, verdict.Judge(others(verdict.Limits{Idle: 1}), seen, 17))
		v := verdict.Judge(others(verdict.Limits{Idle: 1}), seen, 18)
		require.Equal(t, verdict.Verdict{
			Action: verdict.Cancel, Limit: verdict.Idle, Used: 11, Allowed: 10, Directive: verdict.DirectCancel, Rung: 1,
			Last: true, Since: 7, Hold: "tool", HoldSerial: 1, Next: never,
		}, v)
	})
	t.Run("the longest counts, and one that allows any silence lifts the limit", func(t *testing.T) {
		seen := verdict.Snapshot{Signs: &verdict.Signs{}}
		for serial, c := range []struct {
			allows, want time.Duration
		}{{10, 10}, {30, 30}, {20, 30}, {0, never}, {never, never}} {
			seen.Signs.Open(toolHold(serial), idle(c.allows), 0)
			require.Equal(t, c.want, seen.Signs.Holds.Idle())
		}
		seen.Signs.Close(toolHold(3), 1)
		seen.Signs.TakeOver(toolHold(4), 5, 2)
		require.Equal(t, verdict.Verdict{Next: 33}, verdict.Judge(others(verdict.Limits{}), seen, 2))
		seen.Signs.TakeOver(toolHold(1), 15, 3)
		require.Equal(t, verdict.Verdict{Next: 24}, verdict.Judge(others(verdict.Limits{}), seen, 3))
		seen.Signs.TakeOver(toolHold(1), 0, 4)
		require.Equal(t, verdict.Verdict{Next: never}, verdict.Judge(others(verdict.Limits{}), seen, 4))
	})
	t.Run("a trip that the host is asked about does not come, the next one does", func(t *testing.T) {
		limits := others(verdict.Limits{WallClock: 12, Ladders: verdict.Ladders{verdict.Idle: []verdict.Directive{verdict.DirectRetry}}})
		seen := verdict.Snapshot{Signs: &verdict.Signs{}}
		seen.Signs.Open(toolHold(1), idle(10), 0)
		trip, ok := verdict.Judge(limits, seen, 11).IdleTrip()
		require.True(t, ok)
		require.Equal(t, verdict.NextIdleTrip(limits, seen), trip)
		seen.Asking, seen.Asked = true, trip
		require.Equal(t, verdict.Verdict{Next: 13}, verdict.Judge(limits, seen, 11))
		require.Equal(t, verdict.WallClock, verdict.Judge(limits, seen, 13).Limit)
		seen.Asked.Rung++
		require.Equal(t, verdict.Idle, verdict.Judge(limits, seen, 11).Limit)
		seen.Asked = trip
		seen.Signs.Signal(false, 1)
		require.Equal(t, verdict.Idle, verdict.Judge(limits, seen, 12).Limit)
	})
}

// TestHoldAhead checks that a hold which another process opened by a clock that is ahead is no life of this one.
func TestHoldAhead(t *testing.T) {
	limits, seen := verdict.Limits{}, verdict.Snapshot{Attached: time.Minute, Signs: &verdict.Signs{}}
	seen.Take(&limits, verdict.Signal{
		Kind: verdict.SignalHeld, At: time.Minute, Key: "tool", From: time.Hour, Length: verdict.Never,
	})
	require.True(t, seen.Signs.Close(verdict.HoldID{Key: "tool"}, 2*time.Minute))
	require.Equal(t, time.Minute, verdict.Silence(seen, 3*time.Minute))
}
