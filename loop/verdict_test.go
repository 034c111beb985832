package loop_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/loop"
)

// TestVerdictString protects what a model reads: what was the same, how often and since when.
func TestVerdictString(t *testing.T) {
	const instead = "; do something else, or say what is missing."
	var d loop.Detector
	require.Empty(t, turns(&d, "aa").String())
	require.Equal(t, `"read" was called with the same input and got the same result 3 times in a row`+instead,
		turns(&d, "a").String())
	require.Equal(t, `The last 6 turns are 3 rounds of the same 2 calls with the same results, the last one of "read"`+instead,
		turns(&d, "bababa").String())
	require.Equal(t, `"read" was called with the same input and got the same result 4 times in the last 9 turns`+instead,
		turns(&d, "xcxcdxefx").String())
	for n := range 8 {
		v := d.Step(loop.Step{Tool: "look_up", Class: loop.Look, Input: fmt.Appendf(nil, `{"offset":%d}`, n)})
		if n == 7 {
			require.Equal(t, `"look_up" was called 8 times in the last 8 turns and found nothing, got the same or failed in the same `+
				`way, however it was put`+instead, v.String())
		}
	}
	for range 20 {
		d.Step(loop.Step{Tool: "status", Class: loop.Wait})
	}
	waits := newDetector(t, loop.Config{Waits: loop.Ask})
	var v loop.Verdict
	for range 20 {
		v = waits.Step(loop.Step{Tool: "status", Class: loop.Wait})
	}
	require.Equal(t, `"status" was called with the same input 20 times, and nothing has changed`+instead,
		v.String())
}

// TestTailOfAnyHistory protects that what a detector says depends on what is in its reach and on nothing before: each
// history in testdata is judged by itself, and after others. It is restarted at a random turn each time.
func TestTailOfAnyHistory(t *testing.T) {
	random := rand.New(rand.NewPCG(27, 10))
	var all [][][]loop.Step
	for _, set := range []string{"loops", "productive", "heldout-loops", "heldout-work"} {
		for _, read := range traces(t, set) {
			for _, classes := range []bool{true, false} {
				var turns [][]loop.Step
				for _, turn := range read.turns {
					turns = append(turns, turn.steps(classes))
				}
				all = append(all, turns)
			}
		}
	}
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	// play judges the turns, and returns all verdicts.
	play := func(d *loop.Detector, turns [][]loop.Step) (said []loop.Verdict) {
		at := random.IntN(len(turns))
		for i, turn := range turns {
			if i == at {
				d = restart(t, d, loop.Config{})
			}
			v := d.Step(turn...)
			if v.Advice == loop.Ask {
				d.Delivered()
			}
			said = append(said, v)
		}
		return said
	}
	person := loop.Step{Class: loop.Person}
	for i, turns := range all[:racing.Rounds(len(all)/10, len(all))] {
		want := play(newDetector(t, loop.Config{}), turns)

		d := newDetector(t, loop.Config{})
		play(d, all[random.IntN(len(all))])
		d.Step(person)
		require.Equal(t, want, play(d, turns), "history %d after another one and a person", i)

		d = newDetector(t, loop.Config{})
		for n := range 300 {
			s := look(fmt.Sprint("before ", n), fmt.Sprint("text ", n))
			if n%3 == 0 {
				s = edit(fmt.Sprint("edit ", n), "ok")
			}
			require.Empty(t, d.Step(s).Rule)
		}
		require.Equal(t, want, play(d, turns), "history %d after work that is out of reach", i)
	}
}
