package watchdog_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/loop"
)

// TestStepOfOddHosts protects a run from what a host hands over, and from when it does.
func TestStepOfOddHosts(t *testing.T) {
	t.Run("a Normalize that panics is the host's, and the run goes on", func(t *testing.T) {
		inFixture(t, func(f *fixture) {
			panics := false
			f.cfg.Loop.Normalize = func(_ string, outcome []byte) []byte {
				if panics {
					panic("a bug of the host")
				}
				return outcome
			}
			wd := f.attach()
			wd.Step(grep(1))
			panics = true
			for range 9 {
				require.Panics(t, func() { wd.Step(grep(1)) })
			}
			panics = false
			require.Equal(t, loop.Go, wd.Step(grep(1)).Advice)
			require.Equal(t, loop.Ask, wd.Step(grep(1)).Advice)
			f.pass(0)
			_, ok := wd.Poll()
			require.True(t, ok)
			require.NoError(t, wd.Close())
		})
	})
	t.Run("ten thousand calls at once are one turn", func(t *testing.T) {
		inFixture(t, func(f *fixture) {
			wd := f.attach()
			var turn []loop.Step
			for n := range 10_000 {
				turn = append(turn, grep(n))
			}
			require.Equal(t, loop.Go, wd.Step(turn...).Advice)
			require.Equal(t, loop.Go, wd.Step(turn...).Advice)
			require.Equal(t, loop.Ask, wd.Step(turn...).Advice)
			f.pass(0)
			require.Len(t, f.events(watchdog.EventUnstuck), 1)
		})
	})
	t.Run("a person between calls takes back what was found before", func(t *testing.T) {
		inFixture(t, func(f *fixture) {
			wd := f.attach()
			for range 3 {
				wd.Step(grep(1))
			}
			f.pass(0)
			_, ok := wd.Poll()
			require.True(t, ok)
			for range 9 {
				v := wd.Step(grep(1), loop.Step{Class: loop.Person}, grep(1))
				require.Equal(t, loop.Verdict{Advice: loop.Go, New: true}, v)
			}
			f.live(wd)
		})
	})
	t.Run("the reason has one line, and the name of a tool is all that a model made up in it", func(t *testing.T) {
		inFixture(t, func(f *fixture) {
			wd := f.attach()
			for range 3 {
				wd.Step(loop.Step{
					Tool: "x\"\n\xff\u2028" + strings.Repeat("y", 1<<20), Class: loop.Look, Input: []byte("CANARY"), Outcome: []byte("CANARY"),
				})
			}
			f.pass(0)
			d, ok := wd.Poll()
			require.True(t, ok)
			require.NotContains(t, d.Loop, "CANARY")
			require.False(t, strings.ContainsAny(d.Loop, "\n\u2028"), "%q", d.Loop)
			require.Less(t, len(d.Loop), 500)
		})
	})
	t.Run("steps after the end and after Close find nothing new, and do no harm", func(t *testing.T) {
		inFixture(t, func(f *fixture) {
			wd := f.attach()
			for range 3 {
				wd.Step(grep(1))
			}
			f.pass(0)
			wd.Poll()
			for range 9 {
				wd.Step(grep(1))
			}
			require.ErrorIs(t, wd.Stop(), watchdog.LoopDetected)
			ends := len(f.events(watchdog.EventCancel))
			f.pass(time.Second)
			require.NoError(t, wd.Close())
			for range 99 {
				wd.Step(grep(2))
			}
			f.pass(time.Minute)
			require.Len(t, f.events(watchdog.EventCancel), ends)
		})
	})
}
