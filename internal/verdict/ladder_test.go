package verdict_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

func TestRungAtStart(t *testing.T) {
	limits := others(verdict.Limits{
		Idle: 10, Ladders: verdict.Ladders{verdict.Idle: []verdict.Directive{verdict.DirectWait, verdict.DirectRetry}},
	})
	seen := verdict.Snapshot{Signs: &verdict.Signs{OnIdle: verdict.Rung{Attempts: 1}}}
	require.Equal(t, 2, verdict.Judge(limits, seen, 11).Rung, "a rung at the window's start counts while there is no progress")
	seen.Signs.Signal(true, 0)
	require.Equal(t, 1, verdict.Judge(limits, seen, 11).Rung, "progress at that instant puts the ladder back")
}

// TestLadderEnds gives each trip of a silence in which nothing happens, and then those after activity and progress.
func TestLadderEnds(t *testing.T) {
	const wait, retry, unstick, cancel = verdict.DirectWait, verdict.DirectRetry, verdict.DirectUnstick, verdict.DirectCancel
	for _, c := range []struct {
		name                              string
		ladder                            []verdict.Directive
		silent, afterActivity, afterRenew string
	}{
		{"none", nil, "cancel", "cancel", "cancel"},
		{"a wait", []verdict.Directive{wait}, "wait", "wait", "wait"},
		{"a wait at the end", []verdict.Directive{retry, wait}, "retry wait", "wait", "retry wait"},
		{"waits", []verdict.Directive{wait, wait}, "wait wait", "wait", "wait wait"},
		{"a retry at the end", []verdict.Directive{wait, retry}, "wait retry cancel", "cancel", "wait retry cancel"},
		{"a wait and a cancel", []verdict.Directive{wait, cancel}, "wait cancel", "cancel", "wait cancel"},
		{"an unstuck", []verdict.Directive{unstick}, "unstuck cancel", "cancel", "unstuck cancel"},
	} {
		t.Run(c.name, func(t *testing.T) {
			limits := others(verdict.Limits{Idle: 10, Ladders: verdict.Ladders{verdict.Idle: c.ladder}})
			seen, now := verdict.Snapshot{Signs: &verdict.Signs{}}, time.Duration(0)
			stretch := func() string {
				var all []string
				for range 10 {
					v := verdict.Judge(limits, seen, now)
					if v.Next == verdict.Never && v.Action == verdict.Continue {
						break
					}
					if v.Action == verdict.Continue {
						now = v.Next
						continue
					}
					all = append(all, string(v.Directive))
					seen.Apply(v, now)
				}
				now += 1000
				return strings.Join(all, " ")
			}
			require.Equal(t, c.silent, stretch())
			seen.Signs.Signal(false, now)
			require.Equal(t, c.afterActivity, stretch())
			seen.Signs.Signal(true, now)
			require.Equal(t, c.afterRenew, stretch())
		})
	}
}

func TestHeldOn(t *testing.T) {
	for _, c := range []struct {
		ladder []verdict.Directive
		rung   int
		trips  bool
	}{
		{nil, 0, true},
		{[]verdict.Directive{verdict.DirectWait}, 0, true},
		{[]verdict.Directive{verdict.DirectWait}, 1, false},
		{[]verdict.Directive{verdict.DirectRetry, verdict.DirectWait}, 1, true},
		{[]verdict.Directive{verdict.DirectRetry, verdict.DirectWait}, 2, false},
		{[]verdict.Directive{verdict.DirectRetry}, 1, true},
		{nil, 2, true}, // the ladder was longer
	} {
		limits := others(verdict.Limits{Ladders: verdict.Ladders{verdict.Hold: c.ladder}})
		seen := verdict.Snapshot{Signs: &verdict.Signs{}}
		seen.Take(&limits, verdict.Signal{Kind: verdict.SignalHeld, Key: "tool", At: 50, Length: 10, Rung: c.rung})
		require.Equal(t, c.trips, verdict.Judge(limits, seen, 50).Limit == verdict.Hold, "%v on rung %d", c.ladder, c.rung)
	}
}
