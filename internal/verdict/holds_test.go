package verdict_test

import (
	"math/rand/v2"
	"strconv"
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
		Idle: hour, Ladders: &verdict.Ladders{Hold: []verdict.Directive{verdict.DirectWait, verdict.DirectRetry}},
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
	t.Run("without any the limits begin at the last one's close, and nothing is kept", func(t *testing.T) {
		for name, end := range map[string]func(signs *verdict.Signs){
			"closed one by one": func(signs *verdict.Signs) { signs.Close(toolHold(1), 5); signs.Close(toolHold(2), 7) },
			"closed at once":    func(signs *verdict.Signs) { signs.CloseAll(7) },
		} {
			seen := verdict.Snapshot{Signs: &verdict.Signs{}}
			seen.Signs.Open(toolHold(1), verdict.HoldLimits{Cap: 10}, 0)
			seen.Signs.Open(toolHold(2), verdict.HoldLimits{Cap: 10}, 0)
			end(seen.Signs)
			require.Nil(t, seen.Signs.Holds, name)
			require.Equal(t, hour+8, verdict.Judge(limits, seen, 7).Next, name)
		}
	})
}

// TestHoldsCost counts comparisons: a hold among twenty thousand costs a few more than one among two thousand, not ten
// times as many.
func TestHoldsCost(t *testing.T) {
	cost := func(n int) float64 {
		seen, rng := verdict.Snapshot{Signs: &verdict.Signs{}}, rand.New(rand.NewPCG(1, 1))
		ids := make([]verdict.HoldID, n+1)
		ids[n] = toolHold(0) // open till the end: what is counted goes with the last hold
		seen.Signs.Open(ids[n], verdict.HoldLimits{Cap: verdict.Never}, 0)
		for i := range n {
			ids[i].Key = strconv.Itoa(i)
			seen.Signs.Open(ids[i], verdict.HoldLimits{Cap: time.Duration(1 + rng.IntN(n))}, 0)
			verdict.Judge(others(verdict.Limits{}), seen, 0)
		}
		for _, i := range rng.Perm(n) {
			verdict.Judge(others(verdict.Limits{}), seen, 0)
			require.True(t, seen.Signs.Close(ids[i], 0))
		}
		return float64(seen.Signs.Holds.Compared()) / float64(n)
	}
	few, many := cost(2_000), cost(20_000)
	require.Less(t, many, 2*few, "comparisons per hold: %.1f of 2,000, %.1f of 20,000", few, many)
	require.Less(t, many, 60.0, "comparisons per hold of 20,000")
}
