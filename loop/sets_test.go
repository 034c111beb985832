package loop_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/golden"
	"github.com/seed62658d38/watchdog/loop"
)

var sets = []string{"loops", "productive", "heldout-loops", "heldout-work", "agents-loops", "agents-work"}

// before is what the rules asked/ended in each set, with and without classes, when they were last changed at large.
var before = map[bool]map[loop.Rule]string{
	true: {
		loop.Tail: "30/15 1/0 32/32 2/2 2/2 7/6", loop.Pair: "6/2 0/0 9/8 0/0 0/0 1/0",
		loop.Futile: "8/0 0/0 6/0 1/0 0/0 0/0", loop.Poll: "0/0 1/0 0/0 0/0 0/0 0/0",
	},
	false: {
		loop.Tail: "29/15 1/0 29/28 1/0 2/2 7/6", loop.Pair: "6/2 0/0 13/9 1/0 0/0 1/0",
		loop.Futile: "8/0 0/0 6/0 1/0 0/0 0/0", loop.Poll: "0/0 1/0 0/0 2/0 0/0 0/0",
	},
}

// byRule returns what each rule asked and ended in each set, in the form of before.
func byRule(t *testing.T, classes bool) map[loop.Rule]string {
	t.Helper()
	rules := map[loop.Rule]string{}
	for rule := range before[classes] {
		rules[rule] = ""
	}
	counts := make([]map[loop.Rule][2]int, len(sets))
	for i, set := range sets {
		counts[i] = map[loop.Rule][2]int{}
		for _, read := range traces(t, set) {
			if f := read.judge(t, classes); f.asked+f.ended != 0 {
				n := counts[i][f.rule]
				counts[i][f.rule] = [2]int{n[0] + min(f.asked, 1), n[1] + min(f.ended, 1)}
				rules[f.rule] = ""
			}
		}
	}
	for rule := range rules {
		var cells []string
		for _, n := range counts {
			cells = append(cells, fmt.Sprintf("%d/%d", n[rule][0], n[rule][1]))
		}
		rules[rule] = strings.Join(cells, " ")
	}
	return rules
}

// TestByRule writes the last section of testdata/README.md: asked/ended by each rule, before and now.
func TestByRule(t *testing.T) {
	const file, heading = "testdata/README.md", "## By rule\n"
	readme, err := os.ReadFile(file)
	require.NoError(t, err)
	above, _, found := strings.Cut(string(readme), heading)
	require.True(t, found)
	var text strings.Builder
	for _, classes := range []bool{true, false} {
		name := map[bool]string{true: "with classes", false: "without classes"}[classes]
		fmt.Fprintf(&text, "\n| %s | %s |\n|---%s|\n", name, strings.Join(sets, " | "), strings.Repeat("|---", len(sets)))
		now := byRule(t, classes)
		for _, rule := range slices.Sorted(maps.Keys(now)) {
			fmt.Fprintf(&text, "| %s |", rule)
			was := strings.Fields(cmp.Or(before[classes][rule], strings.Repeat("0/0 ", len(sets))))
			for i, cell := range strings.Fields(now[rule]) {
				fmt.Fprintf(&text, " %s → %s |", was[i], cell)
			}
			fmt.Fprintln(&text)
		}
	}
	fmt.Fprintf(&text, "\nNot found with classes: %s.\n", strings.Join(missed(t), ", "))
	golden.Compare(t, file, above+heading+"\nAsked/ended, before the rules last changed at large → now.\n"+text.String())
}

// missed returns the names of the held-out loops that are not found with classes.
func missed(t *testing.T) (names []string) {
	t.Helper()
	for _, read := range traces(t, "heldout-loops") {
		if read.judge(t, true).asked == 0 {
			names = append(names, "`"+read.Name+"`")
		}
	}
	return names
}

// thought is how long a model thinks.
func thought(random *rand.Rand) time.Duration {
	return time.Duration(5000+random.IntN(35000)) * time.Millisecond
}

// TestPlanted protects loops of models that think: those in testdata, with gaps of 5 to 40 seconds before each step.
func TestPlanted(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 40))
	for _, c := range []struct {
		set     string
		classes bool
		found   int
		ended   int // at most; it counts for work alone
	}{
		{"loops", true, 43, 44}, {"loops", false, 43, 44}, {"heldout-loops", true, 51, 60}, {"heldout-loops", false, 50, 60},
		{"productive", true, 0, 0}, {"productive", false, 0, 0}, {"heldout-work", true, 0, 2}, {"heldout-work", false, 0, 0},
	} {
		found, ended := 0, 0
		for _, read := range traces(t, c.set) {
			d := newDetector(t, loop.Config{})
			var f finding
			for n, turn := range read.turns {
				steps := turn.steps(c.classes)
				for i := range steps {
					steps[i].Gap = thought(random)
				}
				f.step(d, n, steps)
			}
			found += min(f.asked, 1)
			ended += min(f.ended, 1)
		}
		t.Logf("%s, with classes %t: %d asked, %d ended", c.set, c.classes, found, ended)
		require.GreaterOrEqual(t, found, c.found, c.set)
		require.LessOrEqual(t, ended, c.ended, c.set)
	}
}

// TestSets holds each set to what was found, asked and ended when the rules last changed. The traces of heldout-loops
// and heldout-work were written by somebody who had not read the rules. They were tuned to once, so that they are not
// held out any more: testdata/README.md has the figures of the first run, before that. A found_by is the turn by which
// a reasonable person would call it a loop; whoever marked the held-out ones knew nothing of when the detector asks.
func TestSets(t *testing.T) {
	// They do the same and get the same in exact rounds, which is what the rule asks about and ends: nothing but the next
	// round tells them from a loop.
	exact := []string{"deletes-by-batch", "flaky-test-reruns"}
	alike := []string{"status-again", "log-of-a-build", "progress-by-a-program"} // which do look like loops
	for _, c := range []struct {
		set           string
		classes       bool
		of            int // traces, at least
		found, inTime int // loops, at least
		asked         int // work, at most, but that which may be
		may, end      []string
	}{
		{"loops", true, 44, 44, 44, 0, nil, nil}, {"loops", false, 44, 42, 42, 0, nil, nil},
		{"productive", true, 125, 0, 0, 2, nil, nil}, {"productive", false, 125, 0, 0, 25, nil, nil},
		{"heldout-loops", true, 60, 47, 0, 0, nil, nil}, {"heldout-loops", false, 60, 48, 0, 0, nil, nil},
		{"heldout-work", true, 150, 0, 0, 1, exact, exact}, {"heldout-work", false, 150, 0, 0, 16, exact, exact},
		{"agents-loops", false, 13, 13, 13, 0, nil, nil}, {"agents-work", false, 15, 0, 0, 0, alike, nil},
	} {
		t.Run(fmt.Sprintf("%s, with classes %t", c.set, c.classes), func(t *testing.T) {
			all := traces(t, c.set)
			require.GreaterOrEqual(t, len(all), c.of)
			loops, found, inTime, asked := strings.HasSuffix(c.set, "loops"), 0, 0, 0
			for _, read := range all {
				require.Equal(t, loops, read.FoundBy > 0, read.Name)
				require.True(t, c.inTime > 0 || read.FoundBy <= len(read.turns), read.Name)
				f := read.judge(t, c.classes)
				t.Logf("asked at turn %d, marked %d, ended at %d of %d, by %s: %s: %s",
					f.asked, read.FoundBy, f.ended, len(read.turns), f.rule, read.Name, read.What)
				found += min(f.asked, 1)
				if f.asked > 0 && f.asked <= read.FoundBy {
					inTime++
				}
				if f.asked > 0 && !slices.Contains(c.may, read.Name) {
					asked++
				}
				require.True(t, loops || f.ended == 0 || slices.Contains(c.end, read.Name), "ended: %s: %s", read.Name, read.What)
			}
			require.GreaterOrEqual(t, found, c.found)
			require.GreaterOrEqual(t, inTime, c.inTime)
			require.True(t, loops || asked <= c.asked, "%d of %d are asked about", asked, len(all))
		})
	}
}
