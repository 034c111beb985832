package stall_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// TestAlsoEnd ends what no signal of Run reaches: a process that the command did not start.
func TestAlsoEnd(t *testing.T) {
	t.Parallel()
	elsewhere := exec.Command("sleep", "300")
	require.NoError(t, elsewhere.Start())
	f := newFixture(t)
	f.cfg.Terminal = readyLine
	f.cfg.AlsoEnd = &stall.AlsoEnd{Command: []string{"kill", strconv.Itoa(elsewhere.Process.Pid)}, Timeout: longTime}
	result, _ := f.stalled(command(t, "print:"+ready, "stay"))
	require.NoError(t, result.AlsoEnded.Err)
	require.ErrorContains(t, elsewhere.Wait(), "terminated")
}

// TestAlsoEndFinished checks that AlsoEnd is not executed for a command that exited by itself or was never started.
func TestAlsoEndFinished(t *testing.T) {
	t.Parallel()
	for name, cmd := range map[string]*exec.Cmd{
		"with status 0": command(t), "with a failure": command(t, "exit:3"),
		"and left a process behind": command(t, "daemon:print:"+ready+";stay"), "never": exec.Command("/no/such/program"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			touched := filepath.Join(t.TempDir(), "touched")
			f.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, "touch:"+touched)}
			result, _ := stall.Run(t.Context(), cmd, f.cfg)
			require.True(t, result == nil || result.Finished && result.AlsoEnded == nil)
			require.NoFileExists(t, touched)
		})
	}
}

// TestAlsoEndOrder checks that a command can end its work itself before AlsoEnd is executed.
func TestAlsoEndOrder(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.Terminal = readyLine
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	require.NoError(t, childSteps["touch"](from))
	f.cfg.AlsoEnd = &stall.AlsoEnd{Command: []string{"test", "-e", to}, Timeout: longTime}
	result, _ := f.stalled(command(t, "copy:"+from+":"+to, "print:"+ready, "stay"))
	require.Equal(t, []syscall.Signal{syscall.SIGINT}, signals(result))
	require.NoError(t, result.AlsoEnded.Err, "the file is there")
}

// TestAlsoEndFails checks that an AlsoEnd which fails is an error beside the one that the command has.
func TestAlsoEndFails(t *testing.T) {
	t.Parallel()
	three := 3
	for _, c := range []struct {
		name   string
		steps  []string
		failed string
		says   string
		code   *int
	}{
		{"with an exit status", []string{"exit:3"}, "exit", "its exit status is 3", &three},
		{"by a signal", []string{"kill:KILL"}, "exit", "a signal ended it: killed", nil},
		{"to start", nil, "start", "it cannot be started: no such file or directory", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.cfg.Terminal = readyLine
			f.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, c.steps...), Timeout: longTime}
			if c.steps == nil {
				f.cfg.AlsoEnd.Command = []string{"/no/such/program"}
			}
			result, err := stall.Run(t.Context(), command(t, "print:"+ready, "stay"), f.cfg)
			var stalled *stall.Stalled
			var exit *exec.ExitError
			require.ErrorAs(t, err, &stalled)
			require.ErrorIs(t, err, stall.ErrAlsoEnd)
			require.ErrorContains(t, err, "AlsoEnd failed: "+c.says+"; end it by hand")
			require.ErrorAs(t, err, &exit)
			require.Equal(t, syscall.SIGINT, exit.Sys().(syscall.WaitStatus).Signal(), "it is the command's, and not AlsoEnd's")
			require.NotErrorIs(t, err, os.ErrNotExist, "the command was found")
			require.ErrorIs(t, result.AlsoEnded.Err, stall.ErrAlsoEnd)
			require.Equal(t, c.failed, result.AlsoEnded.Failed)
			r := f.record()
			require.Equal(t, c.failed, r.AlsoEnd.Failed)
			require.Equal(t, c.code, r.AlsoEnd.ExitCode)
			if c.code == nil {
				require.Equal(t, -1, result.AlsoEnded.ExitCode)
			}
		})
	}
	t.Run("after a completion check that stalled, which is no error itself", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.Terminal, f.cfg.AsIncomplete = readyLine, true
		f.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, "exit:1")}
		result, err := f.run(command(t, "print:"+ready, "stay"))
		require.True(t, result.Incomplete)
		require.ErrorIs(t, err, stall.ErrAlsoEnd)
		require.NotErrorIs(t, err, watchdog.CommandTerminal)
	})
}

// TestAlsoEndTree checks that no process of an AlsoEnd is left: it has the command's environment, and so the token.
func TestAlsoEndTree(t *testing.T) {
	t.Parallel()
	t.Run("when it hangs, after its timeout", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.Terminal = readyLine
		forked := filepath.Join(t.TempDir(), "forked")
		f.cfg.AlsoEnd = &stall.AlsoEnd{
			Command: childCommand(t, "ignore:INT,TERM", "daemon:ignore:INT,TERM;touch:"+forked+";print:"+ready+";stay", "stay"),
			Timeout: 3 * time.Second,
		}
		began := time.Now()
		result, err := f.run(command(t, "print:"+ready, "stay"))
		within(t, 3*time.Second+2*slack, began)
		require.ErrorIs(t, err, stall.ErrAlsoEnd)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "that would be the host's")
		require.FileExists(t, forked)
		require.Equal(t, "timeout", result.AlsoEnded.Failed)
		require.GreaterOrEqual(t, result.AlsoEnded.Elapsed, 3*time.Second)
		require.LessOrEqual(t, result.Elapsed+result.AlsoEnded.Elapsed, time.Since(began), "it is not time of the command")
		require.Equal(t, "timeout", f.record().AlsoEnd.Failed)
	})
	t.Run("when it exits and left a daemon", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.Terminal = readyLine
		f.cfg.AlsoEnd = &stall.AlsoEnd{
			Command: childCommand(t, "daemon:ignore:INT,TERM;print:"+ready+";stay", "exit:0"), Timeout: longTime,
		}
		result, _ := f.stalled(command(t, "print:"+ready, "stay"))
		require.NoError(t, result.AlsoEnded.Err)
	})
}
