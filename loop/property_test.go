package loop_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/racing"
	"github.com/seed62658d38/watchdog/loop"
)

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
