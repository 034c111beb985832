package loop_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/loop"
)

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
			asks, ends := false, false
			for _, turn := range read.turns {
				steps := turn.steps(c.classes)
				for i := range steps {
					steps[i].Gap = thought(random)
				}
				v := d.Step(steps...)
				if v.Advice == loop.Ask {
					d.Delivered()
				}
				asks, ends = asks || v.Advice == loop.Ask, ends || v.Advice == loop.End
			}
			if asks {
				found++
			}
			if ends {
				ended++
			}
		}
		t.Logf("%s, with classes %t: %d asked, %d ended", c.set, c.classes, found, ended)
		require.GreaterOrEqual(t, found, c.found, c.set)
		require.LessOrEqual(t, ended, c.ended, c.set)
	}
}

// TestPlantedCommands is the same for commands of a shell, which no host declares.
func TestPlantedCommands(t *testing.T) {
	random := rand.New(rand.NewPCG(41, 5))
	all, found := 0, 0
	for _, c := range [][2]string{
		{"ls -la", "a.go"}, {"cat a.go", "package a"}, {"./run.sh", "done"}, {"python main.py", "42"}, {"go vet ./...", ""},
		{"grep -rn port .", "a.go:3: port"}, {"git diff", ""}, {"node index.js", "Listening"}, {"make lint", "ok"},
		{"sed -n 1,20p a.go", "package a"}, {"curl -s http://a/users", "[]"}, {"docker ps", "CONTAINER ID"}, {"java Main", "1"},
		{"./configure", "checking for gcc... yes"}, {"pip list", "attrs 1.0"}, {"terraform plan", "No changes."},
	} {
		for range 10 {
			d := newDetector(t, loop.Config{})
			all++
			for range 9 {
				if v := d.Step(after(thought(random), bash(c[0], c[1]))); v.Advice == loop.Ask {
					found++
					break
				}
			}
		}
	}
	t.Logf("%d of %d calls of a shell found in 9 turns", found, all)
	require.GreaterOrEqual(t, found, 80*all/100)
}
