package verdict_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

const ms = time.Millisecond

// TestGrace has a table of what rings come to, of a timer that is set for the limit at first, and then for what the
// ring before it gave.
func TestGrace(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		limit time.Duration
		rings []time.Duration // at
		trips []time.Duration // as is known after each
	}{
		{"on time", time.Second, []time.Duration{1000*ms + 1}, []time.Duration{1000*ms + 1}},
		{"late by a quarter", time.Second, []time.Duration{1250*ms + 1}, []time.Duration{1000*ms + 1}},
		{"late by more", time.Second, []time.Duration{1250*ms + 2}, []time.Duration{1500*ms + 2}},
		{"one grace for each", time.Second, []time.Duration{4000 * ms, 4250 * ms}, []time.Duration{4250 * ms, 4250 * ms}},
		{
			"none after the third", time.Second, []time.Duration{2000 * ms, 3000 * ms, 4000 * ms, 5000 * ms},
			[]time.Duration{2250 * ms, 3250 * ms, 4250 * ms, 4250 * ms},
		},
		{"again in a grace", time.Second, []time.Duration{2000 * ms, 2249 * ms}, []time.Duration{2250 * ms, 2250 * ms}},
		{"at least 50 ms", 10 * ms, []time.Duration{70 * ms}, []time.Duration{120 * ms}},
		{"and less is not late", 10 * ms, []time.Duration{60*ms + 1}, []time.Duration{10*ms + 1}},
		{"at most 5 s", time.Hour, []time.Duration{time.Hour + 6*time.Second}, []time.Duration{time.Hour + 11*time.Second}},
		{"no limit", verdict.Never, []time.Duration{time.Hour}, []time.Duration{verdict.Never}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var g verdict.Grace
			setFor := verdict.Sum(c.limit, 1)
			if c.limit == verdict.Never {
				setFor = 0
			}
			for i, at := range c.rings {
				g.Rang(setFor, at, c.limit, 0)
				setFor = g.Expires(0, verdict.Sum(c.limit, 1))
				require.Equal(t, c.trips[i], setFor)
			}
		})
	}
	t.Run("a late ring shortly before the limit gives one, and one long before none", func(t *testing.T) {
		var g verdict.Grace
		g.Rang(100*ms, 600*ms, time.Second, 0)
		require.Equal(t, 1001*ms, g.Expires(0, 1001*ms))
		g.Rang(100*ms, 900*ms, time.Second, 0)
		require.Equal(t, 1150*ms, g.Expires(0, 1001*ms))
	})
	t.Run("a sign begins the silence again, and the count", func(t *testing.T) {
		var g verdict.Grace
		for last := time.Duration(0); last < time.Minute; last += 3 * time.Second {
			g.Rang(last+1000*ms, last+2000*ms, time.Second, last)
			require.Equal(t, last+2250*ms, g.Expires(last, last+1000*ms))
			require.Equal(t, last+3100*ms, g.Expires(last+2100*ms, last+3100*ms))
		}
	})
}

// TestGraceModel lives random lives with pauses. The timer is set for what is known, and rings at the first moment then
// at which the guard runs.
func TestGraceModel(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20_000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		upTo := func(d time.Duration) time.Duration { return time.Duration(rnd.Int64N(int64(d))) + 1 }
		limits := verdict.Off()
		limits.Idle = upTo(30 * time.Second)
		seen := verdict.Snapshot{Signs: &verdict.Signs{}}
		signs, signalling := seen.Signs, rnd.IntN(3)
		grace := min(max(limits.Idle/4, 50*ms), 5*time.Second)
		setFor, paused, late := limits.Idle+1, time.Duration(0), 0
		for {
			pause := time.Duration(0)
			if rnd.IntN(2) == 0 {
				pause = upTo(3 * limits.Idle)
			}
			now := setFor + pause
			paused += pause
			seen.Rang(&limits, setFor, now)
			v := verdict.Judge(limits, seen, now)
			if v.Action == verdict.Cancel {
				require.Equal(t, now-signs.Activity, v.Used, "since the last sign")
				require.True(t, pause <= grace || late == 3, "seed %d: a late ring ends nothing before the third", seed)
				require.LessOrEqual(t, v.Used, limits.Idle+1+paused+3*grace)
				break
			}
			if pause > grace {
				late++
				require.LessOrEqual(t, late, 3)
				require.Equal(t, now+grace, v.Next)
			}
			if signalling > 0 && now < time.Hour && rnd.IntN(signalling+1) > 0 { // what waited is taken
				signs.Signal(false, now+upTo(grace-1))
				late, paused = 0, 0
				require.Equal(t, verdict.Continue, verdict.Judge(limits, seen, signs.Activity+limits.Idle).Action)
				v = verdict.Judge(limits, seen, v.Next)
			}
			setFor = v.Next
		}
	}
}

// TestRang protects what a late ring does to the limits of a run.
func TestRang(t *testing.T) {
	t.Parallel()
	limits := verdict.Off()
	limits.Idle, limits.NoProgress, limits.WallClock = 10*time.Second, 20*time.Second, 21*time.Second
	late := func(seen verdict.Snapshot, setFor, at time.Duration) verdict.Verdict {
		seen.Rang(&limits, setFor, at)
		return verdict.Judge(limits, seen, at)
	}
	t.Run("the wall clock goes on in a grace", func(t *testing.T) {
		v := late(verdict.Snapshot{Signs: &verdict.Signs{}}, 10*time.Second, 20*time.Second)
		require.Equal(t, verdict.Verdict{Next: 21*time.Second + 1}, v)
		v = late(verdict.Snapshot{Signs: &verdict.Signs{}}, 10*time.Second, 22*time.Second)
		require.Equal(t, verdict.WallClock, v.Limit)
	})
	t.Run("a sign in it is no progress", func(t *testing.T) {
		seen := verdict.Snapshot{Signs: &verdict.Signs{}}
		limits := limits
		limits.WallClock = verdict.Never
		seen.Rang(&limits, 10*time.Second, 30*time.Second)
		seen.Signs.Signal(false, 31*time.Second)
		v := verdict.Judge(limits, seen, 35*time.Second)
		require.Equal(t, verdict.NoProgress, v.Limit)
		require.Equal(t, 35*time.Second, v.Used)
	})
	t.Run("a hold's own silence has one, and its cap none", func(t *testing.T) {
		seen := verdict.Snapshot{Signs: &verdict.Signs{}}
		seen.Signs.Open(verdict.HoldID{Key: "h"}, verdict.HoldLimits{Cap: time.Minute, Idle: 4 * time.Second}, 0)
		limits := verdict.Off()
		seen.Rang(&limits, 4*time.Second, 9*time.Second)
		require.Equal(t, 10*time.Second, verdict.Judge(limits, seen, 9*time.Second).Next)
		seen.Rang(&limits, 10*time.Second, time.Minute+1)
		require.Equal(t, verdict.Hold, verdict.Judge(limits, seen, time.Minute+1).Limit)
	})
	t.Run("nothing of a run without signs", func(t *testing.T) {
		require.Equal(t, verdict.WallClock, late(verdict.Snapshot{}, 21*time.Second, 30*time.Second).Limit)
	})
}
