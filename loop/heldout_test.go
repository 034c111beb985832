package loop_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The traces of heldout-loops and heldout-work were written by somebody who had not read the rules, and nothing is
// tuned to them. A found_by is the turn by which a reasonable person would call it a loop.
var heldOut = []struct {
	name    string
	classes bool
	share   float64 // of the work that may be asked
}{{"with classes", true, 0.01}, {"without classes", false, 0.10}}

// TestHeldOutLoops only reports: whoever marked a turn knew nothing of when the detector asks.
func TestHeldOutLoops(t *testing.T) {
	all := traces(t, "heldout-loops")
	require.GreaterOrEqual(t, len(all), 60)
	for _, c := range heldOut {
		t.Run(c.name, func(t *testing.T) {
			found, early, inTime := 0, 0, 0
			for _, read := range all {
				require.LessOrEqual(t, read.FoundBy, len(read.turns), read.name)
				require.NotZero(t, read.FoundBy, read.name)
				f := read.judge(t, c.classes)
				if f.asked == 0 {
					t.Logf("never found in %d turns: %s: %s", len(read.turns), read.name, read.What)
					continue
				}
				found++
				if f.asked < read.FoundBy {
					early++
				}
				if f.asked <= read.FoundBy {
					inTime++
				}
				t.Logf("asked at turn %d, marked %d (%+d), ended at %d, by %s: %s",
					f.asked, read.FoundBy, f.asked-read.FoundBy, f.ended, f.rule, read.name)
			}
			t.Logf("found %d of %d, %d by the marked turn, %d of them before it", found, len(all), inTime, early)
		})
	}
}

func TestHeldOutWork(t *testing.T) {
	all := traces(t, "heldout-work")
	require.GreaterOrEqual(t, len(all), 150)
	for _, c := range heldOut {
		t.Run(c.name, func(t *testing.T) {
			asked, ended := 0, 0
			for _, read := range all {
				f := read.judge(t, c.classes)
				if f.asked != 0 {
					asked++
					t.Logf("asked at turn %d of %d by %s: %s: %s", f.asked, len(read.turns), f.rule, read.name, read.What)
				}
				if f.ended != 0 {
					ended++
				}
				assert.Zero(t, f.ended, "ended by %s: %s: %s", f.rule, read.name, read.What)
			}
			t.Logf("asked %d of %d, ended %d", asked, len(all), ended)
			assert.LessOrEqual(t, float64(asked), c.share*float64(len(all)))
		})
	}
}
