package loop_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/loop"
)

// told gives a detector turns of one step, and tells the run whenever it is asked about. It returns the first turns
// that are asked about and ended, 0 where none is.
func told(d *loop.Detector, steps ...loop.Step) (asked, ended int) {
	for n, s := range steps {
		switch v := d.Step(s); {
		case v.Advice == loop.Ask:
			d.Delivered()
			if asked == 0 {
				asked = n + 1
			}
		case v.Advice == loop.End && ended == 0:
			ended = n + 1
		}
	}
	return asked, ended
}

// times is that many of what make returns for each number.
func times(n int, make func(n int) loop.Step) (all []loop.Step) {
	for i := range n {
		all = append(all, make(i))
	}
	return all
}

// after returns the step with that Gap.
func after(gap time.Duration, s loop.Step) loop.Step {
	s.Gap = gap
	return s
}

// TestThinking protects a run at the speed of a model: thinking is not polling, and a poll is not ended.
func TestThinking(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 27))
	for _, c := range []struct {
		command, outcome string
		ended            int
	}{
		{"./run.sh", "done", 0},
		{"python solve.py", "[1, 2, 3]", 0},
		{"./deploy.sh", "Error: missing the field region", 5},
		{"cat notes.txt", "one\ntwo", 5},
		{"grep -rn port .", "a.go:3: port", 5},
		{"sed -i s/a/b/ x", "", 5},
		{"pytest -q", "1 failed, 2 passed", 5},
		{"ls", "a.go", 0},
	} {
		for _, gaps := range [][2]int{{5, 8}, {5, 29}, {1, 29}} {
			t.Run(fmt.Sprintf("%s with gaps of %v seconds", c.command, gaps), func(t *testing.T) {
				asked, ended := told(newDetector(t, loop.Config{}), times(12, func(int) loop.Step {
					gap := time.Duration(gaps[0]+random.IntN(gaps[1]-gaps[0]+1)) * time.Second
					return after(max(gap, time.Second), bash(c.command, c.outcome))
				})...)
				require.Equal(t, 3, asked)
				if gaps[0] >= 5 || c.ended > 0 || c.command == "ls" {
					require.Equal(t, c.ended, ended)
				}
			})
		}
	}
	t.Run("a run that is strict ends that, too", func(t *testing.T) {
		asked, ended := told(newDetector(t, loop.Config{Mode: loop.Strict}),
			times(12, func(int) loop.Step { return after(2*time.Minute, bash("ls", "a.go")) })...)
		require.Equal(t, []int{3, 5}, []int{asked, ended})
	})
	t.Run("what is slower is a poll", func(t *testing.T) {
		asked, ended := told(newDetector(t, loop.Config{}),
			times(90, func(int) loop.Step { return after(30*time.Second, bash("./run.sh", "done")) })...)
		require.Equal(t, []int{21, 0}, []int{asked, ended})
	})
	t.Run("what something else comes between that is new is no loop", func(t *testing.T) {
		asked, _ := told(newDetector(t, loop.Config{}), times(60, func(n int) loop.Step {
			if n%2 == 0 {
				return after(9*time.Second, bash("./check-all.sh", "good"))
			}
			return after(9*time.Second, bash(fmt.Sprint("restore ", n), "restored"))
		})...)
		require.Zero(t, asked)
	})
	t.Run("what cannot be polled ends a run with polls between", func(t *testing.T) {
		asked, ended := told(newDetector(t, loop.Config{}), times(20, func(n int) loop.Step {
			if n%2 == 0 {
				return after(9*time.Second, bash("./run.sh", "done"))
			}
			return after(9*time.Second, bash("cat a.go", "package a"))
		})...)
		require.Equal(t, []int{6, 10}, []int{asked, ended})
	})
}

// TestLookAtState protects who looks again at how things stand: that it stays is no loop, and ends nothing.
func TestLookAtState(t *testing.T) {
	for name, s := range map[string]loop.Step{
		"git status":                 bash("git status", "On branch main\nnothing to commit"),
		"git status in a folder":     bash("cd /src && git status --short", " M a.go"),
		"a list of tasks":            {Tool: "TodoRead", Outcome: []byte(`[{"content":"write it","status":"open"}]`)},
		"a declared list of tasks":   {Tool: "list_tasks", Class: loop.Look, Outcome: []byte(`["write it"]`)},
		"a customer":                 {Tool: "get_customer_by_phone", Input: []byte(`{"phone":"1"}`), Outcome: []byte(`{"id":"c1","name":"Ada"}`)},
		"a customer, looked up once": {Tool: "lookup_customer_details", Input: []byte(`"c1"`), Outcome: []byte(`{"id":"c1","plan":"x"}`)},
	} {
		t.Run(name, func(t *testing.T) {
			asked, ended := told(newDetector(t, loop.Config{}), times(40, func(int) loop.Step { return s })...)
			require.Equal(t, []int{3, 0}, []int{asked, ended}, "asked at most")
			asked, _ = told(newDetector(t, loop.Config{}), times(60, func(n int) loop.Step {
				if n%2 == 0 {
					return s
				}
				return look(fmt.Sprint("file ", n), fmt.Sprint("text ", n))
			})...)
			require.Zero(t, asked, "between reads of other files")
		})
	}
	t.Run("what fails is no state", func(t *testing.T) {
		_, ended := told(newDetector(t, loop.Config{}),
			times(9, func(int) loop.Step { return bash("git status", "fatal: not a git repository") })...)
		require.Equal(t, 5, ended)
	})
}
