package stall_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// TestExitErrorAsExec runs commands with package exec and with Run, and compares what hosts look at.
func TestExitErrorAsExec(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"success":                       "exit 0",
		"failure":                       "exit 1",
		"the greatest status":           "exit 255",
		"a status of a shell's own":     "no-such-command-at-all",
		"a status like that of SIGHUP":  "exit 129",
		"a status like that of SIGKILL": "exit 137",
		"SIGKILL":                       "kill -KILL $$",
		"SIGTERM":                       "kill -TERM $$",
		"a signal without a name":       "kill -40 $$",
		"a core dump":                   "ulimit -c unlimited; kill -SEGV $$",
		"no core dump":                  "ulimit -c 0; kill -SEGV $$",
		"stopped and continued":         "(sleep 0.1; kill -CONT $$) & kill -STOP $$; wait; exit 5",
		"a child that was left":         "sleep 1 & exit 6",
		"a failed standard output":      "echo lost >/dev/full",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plain, guarded := exec.Command("sh", "-c", script), exec.Command("sh", "-c", script)
			plain.Dir, guarded.Dir = t.TempDir(), t.TempDir()
			want := plain.Run()
			result, got := stall.Run(t.Context(), guarded, stall.Config{Step: "step"})
			require.True(t, result.Finished)
			sameState(t, plain.ProcessState, guarded.ProcessState)
			exit, failed := asExit(got)
			wanted, wantFailed := asExit(want)
			require.Equal(t, wantFailed, failed)
			if !failed {
				require.NoError(t, got)
			} else {
				require.Same(t, guarded.ProcessState, exit.ProcessState)
				require.Equal(t, wanted.Error(), exit.Error())
				require.Equal(t, wanted.Stderr, exit.Stderr)
			}
		})
	}
}

// sameState compares all but what differs from process to process.
func sameState(tb testing.TB, want, got *os.ProcessState) {
	tb.Helper()
	require.Equal(tb, want.String(), got.String())
	require.Equal(tb, want.ExitCode(), got.ExitCode())
	require.Equal(tb, want.Exited(), got.Exited())
	require.Equal(tb, want.Success(), got.Success())
	require.Equal(tb, want.Sys(), got.Sys())
	require.IsType(tb, want.SysUsage(), got.SysUsage())
	require.Positive(tb, got.Pid())
}

// TestExitErrorState checks that the state is that of the command itself, and not one of another process or the guard.
func TestExitErrorState(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	cmd := exec.Command("sh", "-c", "echo $$; i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; exit 3")
	cmd.Stdout = &out
	c, err := stall.NewCommand(cmd, newFixture(t).cfg)
	require.NoError(t, err)
	require.NoError(t, c.Start(t.Context()))
	require.Nil(t, cmd.ProcessState, "before Wait, which alone sets it")
	result, err := c.Wait()
	state := cmd.ProcessState
	exit, itself := asExit(err)
	require.True(t, itself)
	require.Same(t, state, exit.ProcessState)
	require.Equal(t, strings.TrimSpace(out.String()), strconv.Itoa(state.Pid()))
	require.Equal(t, c.Pid(), state.Pid())
	require.Equal(t, result.User, state.UserTime())
	require.Equal(t, result.System, state.SystemTime())
	require.Positive(t, state.UserTime()+state.SystemTime())
	require.Equal(t, result.MaxRSS, state.SysUsage().(*syscall.Rusage).Maxrss<<10)
	require.Positive(t, result.MaxRSS)
	again, err := c.Wait()
	require.Same(t, result, again)
	require.Same(t, exit, err)
	require.Same(t, state, cmd.ProcessState)
	require.Nil(t, cmd.Process)
	_, err = stall.NewCommand(cmd, newFixture(t).cfg)
	require.ErrorIs(t, err, watchdog.ErrInvalid, "it was started already")
}

// TestExitErrorEnded checks that a command that was ended has no error of package exec behind its reason, if it exited
// with status 0 or if the reason is no error.
func TestExitErrorEnded(t *testing.T) {
	t.Parallel()
	t.Run("and exits with status 0 then", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.Terminal = readyLine
		cmd := command(t, "obey:INT:0", "print:"+ready, "stay")
		_, err := f.run(cmd)
		var exit *exec.ExitError
		require.ErrorIs(t, err, watchdog.CommandTerminal)
		require.NotErrorAs(t, err, &exit)
		require.True(t, cmd.ProcessState.Success())
	})
	t.Run("as an incomplete check", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.NoOutput, f.cfg.AsIncomplete = 100*time.Millisecond, true
		cmd := command(t, "stay")
		_, err := f.run(cmd)
		require.NoError(t, err)
		require.Equal(t, "signal: interrupt", cmd.ProcessState.String())
	})
}

// TestExitErrorWithoutState checks the error in a Go in which an os.ProcessState cannot be made: it has the same words,
// and one variable finds both.
func TestExitErrorWithoutState(t *testing.T) {
	t.Parallel()
	for script, err := range map[string]error{
		"exit 3":        stall.ExitErrorWithoutState(3, 0),
		"kill -TERM $$": stall.ExitErrorWithoutState(-1, syscall.SIGTERM),
	} {
		_, got := stall.Run(t.Context(), exec.Command("sh", "-c", script), stall.Config{Step: "step"})
		require.EqualError(t, err, got.Error())
		var without *stall.ExitError
		require.ErrorAs(t, err, &without)
		var one, other interface{ ExitCode() int }
		require.ErrorAs(t, got, &one)
		require.ErrorAs(t, err, &other)
		require.Equal(t, one.ExitCode(), other.ExitCode())
	}
	require.NoError(t, stall.ExitErrorWithoutState(0, 0))
}

// asExit asserts the type of an error, as hosts do.
func asExit(err error) (exit *exec.ExitError, itself bool) {
	exit, itself = err.(*exec.ExitError) //nolint:errorlint // it must not be wrapped
	return exit, itself
}

// TestExitErrorBeside checks that a failure of the record does not hide how the command failed, nor the other way round.
func TestExitErrorBeside(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.NoOutput, f.cfg.OnStall, f.cfg.Artifacts = 50*time.Millisecond, stall.ActionIgnore, ""
	broken := errors.New("disk full")
	tripped := filepath.Join(t.TempDir(), "tripped")
	f.cfg.Store = &endingStore{&faultyStore{f.store, broken}, func() { _ = childSteps["touch"](tripped) }}
	_, err := f.run(command(t, "await:"+tripped, "exit:3"))
	var exit *exec.ExitError
	require.ErrorAs(t, err, &exit)
	require.Equal(t, 3, exit.ExitCode())
	require.ErrorIs(t, err, broken)
	_, itself := asExit(err)
	require.False(t, itself)
	require.ErrorContains(t, err, "run step step: ")
}

// TestExitErrorNotStarted compares the errors of commands that cannot be started with those of package exec. A path of
// package os is not among them: errors are recorded, and the path may be a secret.
func TestExitErrorNotStarted(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	plain := filepath.Join(folder, "plain")
	require.NoError(t, os.WriteFile(plain, []byte("#!/bin/true\n"), 0o600))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		ctx  context.Context
		line []string
		dir  string
	}{
		"a name that is not found":  {line: []string{"no-such-program-at-all"}},
		"a path that is not found":  {line: []string{"/no/such/program"}},
		"a file that is no program": {line: []string{plain}},
		"a folder":                  {line: []string{folder}},
		"a folder that is missing":  {line: []string{"true"}, dir: "/no/such/folder"},
		"a NUL":                     {line: []string{"true", "a\x00b"}},
		"a context that has ended":  {ctx: ended, line: []string{"true"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := c.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			plain, guarded := exec.CommandContext(ctx, c.line[0], c.line[1:]...), exec.Command(c.line[0], c.line[1:]...)
			plain.Dir, guarded.Dir = c.dir, c.dir
			want := plain.Run()
			result, got := stall.Run(ctx, guarded, stall.Config{Step: "step"})
			require.Error(t, want)
			require.Nil(t, result)
			for _, target := range []error{
				exec.ErrNotFound, fs.ErrNotExist, fs.ErrPermission, syscall.ENOENT, syscall.EACCES, syscall.EINVAL,
				context.Canceled,
			} {
				require.Equal(t, errors.Is(want, target), errors.Is(got, target), "%v: %v", target, got)
			}
			var missing, missed *exec.Error
			require.Equal(t, errors.As(want, &missing), errors.As(got, &missed))
			require.Equal(t, missing, missed)
			var exit *exec.ExitError
			require.NotErrorAs(t, got, &exit)
			require.Nil(t, guarded.ProcessState)
		})
	}
}
