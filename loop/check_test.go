package loop_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/loop"
)

// bash is a command of no declared class, as a host has it.
func bash(command, outcome string) loop.Step {
	return loop.Step{Tool: "bash", Input: fmt.Appendf(nil, `{"command":%q}`, command), Outcome: []byte(outcome)}
}

// history is the steps, each a turn, again and again.
func history(rounds int, steps ...loop.Step) (all [][]loop.Step) {
	for _, s := range slices.Repeat(steps, rounds) {
		all = append(all, []loop.Step{s})
	}
	return all
}

// tracesIn returns the turns of the traces of a set of testdata.
func tracesIn(t *testing.T, set string) map[string][][]loop.Step {
	t.Helper()
	all := map[string][][]loop.Step{}
	for _, read := range traces(t, set) {
		for _, turn := range read.turns {
			all[read.Name] = append(all[read.Name], turn.steps(true))
		}
	}
	return all
}

// first returns the first turn after which Check says something else than Go, as a hook finds it.
func first(t *testing.T, turns [][]loop.Step, cfg loop.Config) (turn int, v loop.Verdict) {
	t.Helper()
	for turn = range turns {
		v, err := loop.Check(turns[:turn+1], cfg)
		require.NoError(t, err)
		if v.Advice != loop.Go {
			return turn + 1, v
		}
	}
	return 0, loop.Verdict{Advice: loop.Go}
}

func TestCheck(t *testing.T) {
	t.Run("it says what a detector says that is told at each ask, of every history here", func(t *testing.T) {
		for _, set := range []string{"loops", "productive", "heldout-loops", "heldout-work"} {
			for name, turns := range tracesIn(t, set) {
				var d loop.Detector
				var want loop.Verdict
				for _, turn := range turns {
					if want = d.Step(turn...); want.Advice == loop.Ask {
						d.Delivered()
					}
				}
				got, err := loop.Check(turns, loop.Config{})
				require.NoError(t, err)
				require.Equal(t, want, got, name)
			}
		}
	})
	t.Run("nothing is no loop", func(t *testing.T) {
		for _, turns := range [][][]loop.Step{nil, {}, {nil, {}}} {
			v, err := loop.Check(turns, loop.Config{})
			require.NoError(t, err)
			require.Equal(t, loop.Verdict{Advice: loop.Go}, v)
		}
	})
	t.Run("a config that is wrong is an error, and stops nothing", func(t *testing.T) {
		v, err := loop.Check(history(9, look("ls", "a")), loop.Config{Mode: "maybe"})
		require.ErrorIs(t, err, loop.ErrInvalid)
		require.Equal(t, loop.Go, v.Advice)
	})
}

// TestWaits checks what is done about waits and polls for a host that wants them ended.
func TestWaits(t *testing.T) {
	nap, status := bash("sleep 1", ""), bash("gh run view 7", "in_progress")
	status.Gap = 10 * time.Second
	work := func(n int) (all [][]loop.Step) {
		for i := range n {
			all = append(all, []loop.Step{nap}, []loop.Step{look("cat", fmt.Sprint("line ", i))})
		}
		return all
	}
	for _, c := range []struct {
		name   string
		turns  [][]loop.Step
		cfg    loop.Config
		turn   int
		advice loop.Advice
	}{
		{"ten sleeps are never ended", history(100, nap), loop.Config{}, 0, loop.Go},
		{"nor with Go", history(100, nap), loop.Config{Waits: loop.Go}, 0, loop.Go},
		{"with End they are, at the tenth", history(100, nap), loop.Config{Waits: loop.End}, 10, loop.End},
		{"with Ask they are asked about, at the twentieth", history(100, nap), loop.Config{Waits: loop.Ask}, 20, loop.Ask},
		{"polls are asked about", history(30, status), loop.Config{}, 21, loop.Ask},
		{"with End they are ended", history(30, status), loop.Config{Waits: loop.End}, 11, loop.End},
		{"and so is who sleeps and polls in turn", history(30, nap, status), loop.Config{Waits: loop.End}, 21, loop.End},
		{"two sleeps in turn are ended when one came ten times", history(30, nap, bash("sleep 2", "")),
			loop.Config{Waits: loop.End}, 19, loop.End},
		{"sleeps between other work are not", work(100), loop.Config{Waits: loop.End}, 0, loop.Go},
		{"nor is a wait that gets something else",
			history(30, bash("sleep 9; gh run view", "1 of 9"), bash("sleep 9; gh run view", "2 of 9")),
			loop.Config{Waits: loop.End}, 0, loop.Go},
		{"nor what moves something along", history(50, loop.Step{Tool: "x", Class: loop.Drive}),
			loop.Config{Waits: loop.End}, 0, loop.Go},
		{"nor a retry", history(50, loop.Step{Tool: "x", Class: loop.Wait, Retry: true}),
			loop.Config{Waits: loop.End}, 0, loop.Go},
		{"a declared wait is one", history(50, sleep(time.Minute)), loop.Config{Waits: loop.End}, 10, loop.End},
	} {
		t.Run(c.name, func(t *testing.T) {
			turn, v := first(t, c.turns, c.cfg)
			require.Equal(t, c.turn, turn)
			require.Equal(t, c.advice, v.Advice)
			if turn > 0 {
				require.Equal(t, loop.Poll, v.Rule)
				require.NotEmpty(t, v.Pattern)
				require.False(t, v.New)
			}
		})
	}
	t.Run("waits that count change no verdict about anything else", func(t *testing.T) {
		for name, turns := range tracesIn(t, "loops") {
			waits := loop.Config{Waits: loop.Ask}
			require.Equal(t, withoutPolls(t, turns, loop.Config{}), withoutPolls(t, turns, waits), name)
		}
	})
	t.Run("what it ends of the work in testdata is what the documentation says", func(t *testing.T) {
		all, ended := 0, 0
		for _, set := range []string{"productive", "heldout-work"} {
			for _, turns := range tracesIn(t, set) {
				all++
				d := newDetector(t, loop.Config{Waits: loop.End})
				for _, turn := range turns {
					if v := d.Step(turn...); v.Advice == loop.End && v.Rule == loop.Poll {
						ended++
						break
					}
				}
			}
		}
		require.Equal(t, []int{424, 26}, []int{all, ended})
	})
}

// withoutPolls returns the last verdict about a run that is told at each ask, without the rule of polls.
func withoutPolls(t *testing.T, turns [][]loop.Step, cfg loop.Config) (last loop.Verdict) {
	t.Helper()
	d := newDetector(t, cfg)
	for _, turn := range turns {
		if last = d.Step(turn...); last.Advice == loop.Ask {
			d.Delivered()
		}
	}
	return last
}
