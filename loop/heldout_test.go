package loop_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The traces of heldout-loops and heldout-work were written by somebody who had not read the rules. They were tuned to
// once, so that they are not held out any more: testdata/README.md has the figures of the first run, before that. A
// found_by is the turn by which a reasonable person would call it a loop.
var heldOut = []struct {
	name    string
	classes bool
	found   int     // of the loops, at least
	share   float64 // of the work that may be asked
}{{"with classes", true, 47, 0.01}, {"without classes", false, 48, 0.10}}

// endedByTheRule is the work that does the same and gets the same in exact rounds, which is what the rule asks about
// and ends: nothing but the next round tells it from a loop. It counts as asked.
var endedByTheRule = []string{"deletes-by-batch", "flaky-test-reruns"}

// TestHeldOutLoops wants as many found as were. By which turn it only reports: whoever marked it knew nothing of when
// the detector asks.
func TestHeldOutLoops(t *testing.T) {
	all := traces(t, "heldout-loops")
	require.GreaterOrEqual(t, len(all), 60)
	for _, c := range heldOut {
		t.Run(c.name, func(t *testing.T) {
			found, early, inTime := 0, 0, 0
			for _, read := range all {
				require.LessOrEqual(t, read.FoundBy, len(read.turns), read.Name)
				require.NotZero(t, read.FoundBy, read.Name)
				f := read.judge(t, c.classes)
				if f.asked == 0 {
					t.Logf("never found in %d turns: %s: %s", len(read.turns), read.Name, read.What)
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
					f.asked, read.FoundBy, f.asked-read.FoundBy, f.ended, f.rule, read.Name)
			}
			t.Logf("found %d of %d, %d by the marked turn, %d of them before it", found, len(all), inTime, early)
			assert.GreaterOrEqual(t, found, c.found)
		})
	}
}

// TestHeldOutWork ends none, and asks at most the share, of all but the work that the rule itself ends.
func TestHeldOutWork(t *testing.T) {
	all := traces(t, "heldout-work")
	require.GreaterOrEqual(t, len(all), 150)
	for _, c := range heldOut {
		t.Run(c.name, func(t *testing.T) {
			asked, ended, others := 0, 0, 0
			for _, read := range all {
				f := read.judge(t, c.classes)
				exact := slices.Contains(endedByTheRule, read.Name)
				if f.asked != 0 {
					asked++
					t.Logf("asked at turn %d of %d by %s: %s: %s", f.asked, len(read.turns), f.rule, read.Name, read.What)
				}
				if f.asked != 0 && !exact {
					others++
				}
				if f.ended != 0 {
					ended++
					assert.True(t, exact, "ended by %s: %s: %s", f.rule, read.Name, read.What)
				}
			}
			t.Logf("asked %d of %d, %d of them not by the rule itself, ended %d", asked, len(all), others, ended)
			assert.LessOrEqual(t, float64(others), c.share*float64(len(all)-len(endedByTheRule)))
		})
	}
}
