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
	runFixture(t, "a Normalize that panics is the host's, and the run goes on", func(f *fixture) {
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
			require.Panics(f.t, func() { wd.Step(grep(1)) })
		}
		panics = false
		require.Equal(f.t, loop.Go, wd.Step(grep(1)).Advice)
		require.Equal(f.t, loop.Ask, wd.Step(grep(1)).Advice)
		f.pass(0)
		_, ok := wd.Poll()
		require.True(f.t, ok)
		require.NoError(f.t, wd.Close())
	})
	runFixture(t, "ten thousand calls at once are one turn", func(f *fixture) {
		wd := f.attach()
		var turn []loop.Step
		for n := range 10_000 {
			turn = append(turn, grep(n))
		}
		require.Equal(f.t, loop.Go, wd.Step(turn...).Advice)
		require.Equal(f.t, loop.Go, wd.Step(turn...).Advice)
		require.Equal(f.t, loop.Ask, wd.Step(turn...).Advice)
		f.pass(0)
		require.Len(f.t, f.events(watchdog.EventUnstuck), 1)
	})
	runFixture(t, "a person between calls takes back what was found before", func(f *fixture) {
		wd := f.attach()
		for range 3 {
			wd.Step(grep(1))
		}
		f.pass(0)
		_, ok := wd.Poll()
		require.True(f.t, ok)
		for range 9 {
			v := wd.Step(grep(1), loop.Step{Class: loop.Person}, grep(1))
			require.Equal(f.t, loop.Verdict{Advice: loop.Go, New: true}, v)
		}
		f.live(wd)
	})
	runFixture(t, "the reason has one line, and the name of a tool is all that a model made up in it", func(f *fixture) {
		wd := f.attach()
		for range 3 {
			wd.Step(loop.Step{
				Tool: "x\"\n\xff\u2028" + strings.Repeat("y", 1<<20), Class: loop.Look, Input: []byte("CANARY"), Outcome: []byte("CANARY"),
			})
		}
		f.pass(0)
		d, ok := wd.Poll()
		require.True(f.t, ok)
		require.NotContains(f.t, d.Loop, "CANARY")
		require.False(f.t, strings.ContainsAny(d.Loop, "\n\u2028"), "%q", d.Loop)
		require.Less(f.t, len(d.Loop), 500)
	})
	runFixture(t, "steps after the end and after Close find nothing new, and do no harm", func(f *fixture) {
		wd := f.attach()
		for range 3 {
			wd.Step(grep(1))
		}
		f.pass(0)
		wd.Poll()
		for range 9 {
			wd.Step(grep(1))
		}
		require.ErrorIs(f.t, wd.Stop(), watchdog.LoopDetected)
		ends := len(f.events(watchdog.EventCancel))
		f.pass(time.Second)
		require.NoError(f.t, wd.Close())
		for range 99 {
			wd.Step(grep(2))
		}
		f.pass(time.Minute)
		require.Len(f.t, f.events(watchdog.EventCancel), ends)
	})
}
