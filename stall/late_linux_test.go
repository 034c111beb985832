package stall_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/stall"
)

// Tests that stop or kill the guard run alone, because it is that of all commands of this process.

// stopGuardOf stops the guard of a command that has begun, has the command end by touching a file, and returns the guard.
func stopGuardOf(t *testing.T, cmd *exec.Cmd, file string) (guard int) {
	t.Helper()
	leader := leaderOf(t, cmd)
	guard = parentOf(t, leader)
	require.NoError(t, syscall.Kill(guard, syscall.SIGSTOP))
	_ = childSteps["touch"](file)
	exits(t, leader)
	return guard
}

// TestFinishedBeforeLateNews checks that a command has finished whose guard tells of its exit only when all signals that
// could be sent are due, or after SIGKILL, the only signal, which then reached only what the command had left behind.
func TestFinishedBeforeLateNews(t *testing.T) {
	for name, c := range map[string]struct {
		killBound time.Duration
		action    stall.TripAction
		left      int
	}{
		"all signals are due": {time.Millisecond, stall.ActionInterrupt, 0}, "after SIGKILL": {longTime, stall.ActionFail, 1},
	} {
		t.Run(name, func(t *testing.T) {
			defer stall.SetKillBound(c.killBound)()
			f := newFixture(t)
			f.cfg.NoOutput, f.cfg.OnStall, f.cfg.Grace = 300*time.Millisecond, c.action, graces(longTime, 0)
			file := t.TempDir() + "/end"
			steps := []string{"daemon:print:" + ready + ";stay", "await:" + file, "exit:0"}
			cmd := command(t, steps[1-c.left:]...)
			f.cfg.Store = plainStore{&lateStore{Memory: f.store, before: func() {
				guard := stopGuardOf(t, cmd, file)
				// The stop is asked about after 400 ms, twice, and the command is signalled without the guard.
				time.AfterFunc(2*time.Second, func() { _ = syscall.Kill(guard, syscall.SIGCONT) })
			}}}
			result, err := f.run(cmd)
			require.NoError(t, err)
			require.True(t, result.Finished)
			require.Empty(t, result.Sent)
			require.Equal(t, c.left, result.LeftBehind)
			cancels, corrected := f.endings()
			require.Len(t, cancels, 1)
			require.Equal(t, cancels, corrected)
		})
	}
}

// TestAlsoEndWithoutGuard checks that nothing of an AlsoEnd is left whose guard was stopped meanwhile.
func TestAlsoEndWithoutGuard(t *testing.T) {
	f := newFixture(t)
	f.cfg.Terminal = readyLine
	file := filepath.Join(t.TempDir(), "guard")
	script := "echo $PPID > " + file + "; sleep 0.2; kill -STOP $PPID; trap '' INT TERM; sleep 300"
	f.cfg.AlsoEnd = &stall.AlsoEnd{Command: []string{"sh", "-c", script}, Timeout: time.Second}
	cmd := command(t, "print:"+ready, "stay")
	result, err := stall.Run(t.Context(), cmd, f.cfg)
	text, _ := os.ReadFile(file)
	defer syscall.Kill(number(strings.TrimSpace(string(text))), syscall.SIGCONT)
	require.ErrorIs(t, err, stall.ErrAlsoEnd)
	require.NotErrorIs(t, err, stall.ErrSurvivors)
	// The guard of a busy machine has not told of the start yet.
	require.Contains(t, []string{"timeout", "start"}, result.AlsoEnded.Failed)
	require.Empty(t, processesWith(tokenOf(cmd)))
}

// TestExitToldLate checks that a command has finished whose exit the guard tells after it has answered the first question.
// What it left behind gets no SIGINT.
func TestExitToldLate(t *testing.T) {
	const pause, patience = 150 * time.Millisecond, 300 * time.Millisecond // the host waits for an answer for 400 ms
	for range 10 {
		f := newFixture(t)
		f.cfg.NoOutput, f.cfg.Artifacts = 300*time.Millisecond, "" // nothing to write before the first question
		file := t.TempDir() + "/end"
		cmd := command(t, "daemon:print:"+ready+";stay", "await:"+file, "exit:0")
		resumed := make(chan time.Duration, 1)
		f.cfg.Store = plainStore{&lateStore{Memory: f.store, before: func() {
			guard := stopGuardOf(t, cmd, file)
			began := time.Now()
			time.AfterFunc(pause, func() {
				_ = syscall.Kill(guard, syscall.SIGCONT)
				resumed <- time.Since(began)
			})
		}}}
		result, err := f.run(cmd)
		if <-resumed > patience {
			continue // the machine was too busy
		}
		require.NoError(t, err)
		require.True(t, result.Finished)
		require.Empty(t, result.Sent)
		require.Equal(t, 1, result.LeftBehind)
		return
	}
	t.Skip("the machine is too busy to resume a process in time")
}

// TestKilledAfterExit checks that a command was ended, and has not finished, if it exited because of a signal before
// SIGKILL ended its child.
func TestKilledAfterExit(t *testing.T) {
	t.Parallel()
	var result *stall.Result
	for grace := 2 * time.Second; grace < slack; grace *= 3 {
		f := newFixture(t)
		f.cfg.Terminal, f.cfg.Grace = readyLine, graces(grace, 50*time.Millisecond)
		result, _ = f.stalled(command(t,
			"obey:INT:7", "child:ignore:INT,TERM;print:"+ready+";stay", "print:"+ready, "stay"))
		if result.ExitCode == 7 {
			break // on a busy machine the command can take longer to exit
		}
	}
	require.Equal(t, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL}, signals(result))
	require.Equal(t, 7, result.ExitCode)
	require.Equal(t, syscall.SIGKILL, result.EndedBy)
	require.True(t, result.Terminated)
}

// TestLostGuard checks that a command whose guard was killed has not finished.
func TestLostGuard(t *testing.T) {
	kill := func(cmd *exec.Cmd) {
		eventually(t, "the command begins", func() bool { return len(processesWith(tokenOf(cmd))) == 1 })
		require.NoError(t, syscall.Kill(parentOf(t, processesWith(tokenOf(cmd))[0]), syscall.SIGKILL))
		eventually(t, "the command ends", func() bool { return len(processesWith(tokenOf(cmd))) == 0 })
	}
	t.Run("while the command runs", func(t *testing.T) {
		f := newFixture(t)
		cmd := command(t, "stay")
		c, err := stall.NewCommand(cmd, f.cfg)
		require.NoError(t, err)
		require.NoError(t, c.Start(t.Context()))
		kill(cmd)
		result, err := c.Wait()
		require.ErrorIs(t, err, proctree.ErrGuard)
		require.False(t, result.Finished)
		require.Empty(t, result.Survivors)
		require.Equal(t, -1, result.ExitCode)
	})
	t.Run("while the cancel is recorded", func(t *testing.T) {
		f := newFixture(t)
		f.cfg.NoOutput = 300 * time.Millisecond
		cmd := command(t, "stay")
		f.cfg.Store = plainStore{&lateStore{Memory: f.store, before: func() { kill(cmd) }}}
		result, err := f.run(cmd)
		require.ErrorIs(t, err, proctree.ErrGuard)
		require.False(t, result.Finished)
		cancels, corrected := f.endings()
		require.Len(t, cancels, 1)
		require.Empty(t, corrected)
	})
}

// TestDyingIsNoSurvivor checks that a process that takes longer to die than a kill may, as on a busy machine, is waited
// for and is no survivor.
func TestDyingIsNoSurvivor(t *testing.T) {
	defer stall.SetKillBound(time.Nanosecond)()
	for _, action := range []stall.TripAction{stall.ActionFail, stall.ActionInterrupt} {
		f := newFixture(t)
		f.cfg.Terminal, f.cfg.OnTerminal = readyLine, action
		f.cfg.Grace = graces(time.Millisecond, time.Millisecond)
		cmd := command(t, ignoringSignals()...)
		result, err := f.run(cmd)
		require.NotErrorIs(t, err, stall.ErrSurvivors)
		require.Equal(t, syscall.SIGKILL, result.Signal)
		require.Empty(t, processesWith(tokenOf(cmd)))
	}
}

// TestSurvivorsError checks that the error names nobody where nobody is known.
func TestSurvivorsError(t *testing.T) {
	require.EqualError(t, stall.SurvivorsError([]int{7, 9}), "processes survived: end the processes [7 9] by hand")
	err := stall.SurvivorsError(nil)
	require.ErrorIs(t, err, stall.ErrSurvivors)
	require.NotContains(t, err.Error(), "[]")
	require.ErrorContains(t, err, "not known in time")
}
