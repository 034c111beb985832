package main_test

import (
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/escape"
	"github.com/seed62658d38/watchdog/internal/racing"
)

// TestRunSurvivors checks that no process of a command survives, however it tries to escape: each command after its
// own exit and one of the other ways to end it, in a long run after all. In proctree each tree ends in every way.
func TestRunSurvivors(t *testing.T) {
	t.Parallel()
	for i, shape := range escape.Scenarios() {
		for j, ending := range []struct {
			name string
			end  func(*testing.T, escape.Scenario)
		}{
			{"its time is used up", endedInTime},
			{"SIGTERM to watchdog", endedBySignal},
			{"SIGKILL to watchdog", endedByKill},
			{"its own exit", endedByItself},
		} {
			if j == 3 && !shape.LeaderExits || j < 3 && i%3 != j && !racing.Long {
				continue
			}
			t.Run(shape.Name+" after "+ending.name, func(t *testing.T) {
				t.Parallel()
				shape := shape.In(t.TempDir())
				t.Cleanup(shape.End)
				ending.end(t, shape)
				assert.Empty(t, shape.Survivors())
			})
		}
	}
}

// runOf returns the program with a scenario's process tree as its command.
func runOf(t *testing.T, shape escape.Scenario, flags ...string) *exec.Cmd {
	t.Helper()
	path, args, _ := shape.Command()
	return newFixture(t).program(append(append(append(flags, "--grace-int", "100ms", "--grace-term", "100ms", "--"), path),
		args[1:]...)...)
}

// endedInTime has the wall clock end the command, unless that has ended by itself.
func endedInTime(t *testing.T, shape escape.Scenario) {
	o := finish(t, runOf(t, shape, "--wall-clock", "2s"))
	switch {
	case shape.LeaderExits:
		assert.Contains(t, []int{0, 124, 137}, o.status, o.stderr) // a busy machine may take two seconds to start it
	default:
		assert.Contains(t, []int{124, 137}, o.status, o.stderr)
	}
}

func endedByItself(t *testing.T, shape escape.Scenario) {
	finish(t, runOf(t, shape)).must(t, 0)
}

func endedBySignal(t *testing.T, shape escape.Scenario) {
	cmd := runOf(t, shape)
	require.NoError(t, cmd.Start())
	ready(t, &shape)
	_ = cmd.Process.Signal(signals["TERM"]) // it may have ended
	_ = cmd.Wait()
	want := []int{128 + int(signals["TERM"])}
	if shape.LeaderExits {
		want = append(want, 0)
	}
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); shape.LeaderExits && status.Signaled() {
		assert.Equal(t, signals["TERM"], status.Signal(), "it was about to exit, and listened to none any more")
		return
	}
	assert.Contains(t, want, cmd.ProcessState.ExitCode())
}

func endedByKill(t *testing.T, shape escape.Scenario) {
	cmd := runOf(t, shape)
	require.NoError(t, cmd.Start())
	ready(t, &shape)
	_ = cmd.Process.Kill() // it may have ended
	_ = cmd.Wait()
	none := 0 // how often in a row, because a process that is just starting is invisible for a moment
	eventually(t, "all of it ends", func() bool {
		if none++; len(shape.Survivors()) > 0 {
			none = 0
		}
		return none == 5
	})
}

// ready waits until the processes have started. Of a tree whose first process exits by itself the others may be ended
// before.
func ready(t *testing.T, shape *escape.Scenario) {
	t.Helper()
	if shape.LeaderExits {
		shape.Processes = 1
	}
	require.NoError(t, shape.Ready(patience))
}
