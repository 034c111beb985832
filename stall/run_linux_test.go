package stall_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/escape/script"
	"github.com/seed62658d38/watchdog/stall"
)

// TestExit runs a command that exits by itself, in its folder and with its environment.
func TestExit(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cmd := command(t, "pwd", "env:COLOUR")
	cmd.Dir = t.TempDir()
	cmd.Env = append([]string{"COLOUR=green"}, cmd.Env...)
	var out strings.Builder
	cmd.Stdout = &out
	result := f.succeeds(cmd)
	require.Equal(t, cmd.Dir+"\ngreen\n", out.String())
	require.True(t, result.Finished)
	require.Zero(t, result.ExitCode)
	require.Nil(t, result.Trip)
	require.Empty(t, result.Fingerprints())
	require.Empty(t, (*stall.Result)(nil).Fingerprints())
	require.Empty(t, result.Requested)
	require.Empty(t, result.Artifacts)
	require.Empty(t, f.artifacts(), "no trip, no artifacts")
	require.Positive(t, result.Elapsed)
	require.Equal(t, "run/step", result.RunID)
	require.Empty(t, f.events(event.Cancel))
}

// TestLeftBehind runs commands that leave a process behind.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	t.Run("is ended in time though it ignores SIGTERM and keeps the output open", func(t *testing.T) {
		f := newFixture(t)
		cmd := command(t, "daemon:ignore:TERM,INT;print:"+ready+";stay")
		cmd.Stdout = new(strings.Builder)
		began := time.Now()
		result := f.succeeds(cmd)
		require.Equal(t, 1, result.LeftBehind)
		within(t, time.Second+slack, began)
	})
	t.Run("stays with KeepBackground whatever runs after it, though nothing marks it", func(t *testing.T) {
		f := newFixture(t)
		f.cfg.KeepBackground = true
		cmd := command(t, "daemon:unmark;print:"+ready+";stay")
		f.succeeds(cmd)
		for range 5 {
			newFixture(t).succeeds(command(t, "daemon:print:"+ready+";stay"))
		}
		require.Len(t, processesWith(tokenOf(cmd)), 1)
		endAll(tokenOf(cmd))
	})
	t.Run("goes on writing with KeepBackground, whatever its output goes to", func(t *testing.T) {
		file, err := os.Create(filepath.Join(t.TempDir(), "out"))
		require.NoError(t, err)
		defer file.Close()
		reader, pipe, err := os.Pipe()
		require.NoError(t, err)
		defer reader.Close()
		defer pipe.Close()
		go func() { _, _ = io.Copy(io.Discard, reader) }()
		for name, to := range map[string]io.Writer{
			"a buffer": &bytes.Buffer{}, "nothing": nil, "a file": file, "a pipe": pipe,
		} {
			t.Run(name, func(t *testing.T) {
				f := newFixture(t)
				f.cfg.KeepBackground, f.cfg.NoOutput = true, longTime
				f.cfg.Terminal = []*regexp.Regexp{regexp.MustCompile("never")}
				log := filepath.Join(t.TempDir(), "talked")
				cmd := command(t, "serve:"+log)
				cmd.Stdout, cmd.Stderr = to, to
				result := f.succeeds(cmd)
				require.NoError(t, result.OutputErr)
				require.Zero(t, result.LeftBehind)
				require.Len(t, processesWith(tokenOf(cmd)), 1)
				before := size(log)
				eventually(t, "it has written more than a pipe holds", func() bool { return size(log) > before+200*7 })
				endAll(tokenOf(cmd))
			})
		}
	})
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// TestInvalidConfig checks that Run starts nothing with a config that cannot be used.
func TestInvalidConfig(t *testing.T) {
	t.Parallel()
	probe := func(change func(*stall.Probe)) func(*stall.Config) {
		return func(c *stall.Config) {
			c.Probe = &stall.Probe{Command: []string{"true"}}
			change(c.Probe)
		}
	}
	prefix := func(text string) func(*stall.Config) { return func(c *stall.Config) { c.FingerprintPrefix = text } }
	keep := func(p []byte) []byte { return p }
	step := func(s stall.Step) func(*stall.Config) { return func(c *stall.Config) { c.Grace = []stall.Step{s} } }
	for _, c := range []struct {
		name   string
		change func(*stall.Config)
		field  string
		value  string
	}{
		{"no step", func(c *stall.Config) { c.Step = "" }, "step", "empty"},
		{"a step that leaves the root", func(c *stall.Config) { c.Step = "../../x" }, "step", `"../../x"`},
		{"a negative NoOutput", func(c *stall.Config) { c.NoOutput = -1 }, "NoOutput", "-1ns"},
		{"a negative WallClock", func(c *stall.Config) { c.WallClock = -2 }, "WallClock", "-2ns"},
		{"a negative RecordTimeout", func(c *stall.Config) { c.RecordTimeout = -3 }, "RecordTimeout", "or 0 for 5s"},
		{"a negative grace", func(c *stall.Config) { c.Grace = graces(-2, 0) }, "Grace", "-2ns"},
		{"too many steps", func(c *stall.Config) { c.Grace = make([]stall.Step, 11) }, "Grace", "11 steps"},
		{"a step without a signal", step(stall.Step{Grace: 1}), "step 1 of Grace", "no signal"},
		{"a negative signal", step(stall.Step{Signal: -15}), "step 1 of Grace", "-15"},
		{"a signal that Linux has not", step(stall.Step{Signal: 65}), "step 1 of Grace", "65"},
		{"a signal that stops", step(stall.Step{Signal: syscall.SIGSTOP}), "step 1 of Grace", "SIGSTOP"},
		{"a signal of terminals that stops", step(stall.Step{Signal: syscall.SIGTSTP}), "step 1 of Grace", "SIGTSTP"},
		{"a step after SIGKILL", func(c *stall.Config) {
			c.Grace = append([]stall.Step{{Signal: syscall.SIGKILL}}, graces(0, 0)...)
		}, "step 1 of Grace", "SIGKILL"},
		{"an unknown activity source", func(c *stall.Config) { c.ActivitySource = "cpu" }, "ActivitySource", `"cpu"`},
		{"an unknown action", func(c *stall.Config) { c.OnStall = "pray" }, "OnStall", `"pray"`},
		{"an unknown terminal action", func(c *stall.Config) { c.OnTerminal = "wish" }, "OnTerminal", `"wish"`},
		{"a prefix with a space", prefix("a b"), "FingerprintPrefix", `"a b"`},
		{"a prefix with a slash at its end", prefix("a/"), "FingerprintPrefix", `"a/"`},
		{"a prefix with a slash at its start", prefix("/a"), "FingerprintPrefix", `"/a"`},
		{"a pattern that is nil", func(c *stall.Config) {
			c.Terminal = []*regexp.Regexp{readyLine[0], nil}
		}, "Terminal", "pattern 2"},
		{"a probe without a command", probe(func(p *stall.Probe) { p.Command = nil }), "Probe.Command", "empty"},
		{"a probe with a negative interval", probe(func(p *stall.Probe) { p.Interval = -4 }), "Interval", "-4ns"},
		{"a probe with a negative timeout", probe(func(p *stall.Probe) { p.Timeout = -4 }), "Timeout", "-4ns"},
		{"a threshold of one probe", probe(func(p *stall.Probe) { p.StallThreshold = 1 }), "Probe.StallThreshold", "1"},
		{"a negative threshold", probe(func(p *stall.Probe) { p.StallThreshold = -7 }), "Probe.StallThreshold", "-7"},
		{"a negative error threshold", probe(func(p *stall.Probe) { p.ErrorThreshold = -7 }), "Probe.ErrorThreshold", "-7"},
		{"an unknown meaning of errors", probe(func(p *stall.Probe) { p.OnError = "panic" }), "Probe.OnError", `"panic"`},
		{"an AlsoEnd without a command", func(c *stall.Config) { c.AlsoEnd = &stall.AlsoEnd{} }, "AlsoEnd.Command", "empty"},
		{"an AlsoEnd without a program", func(c *stall.Config) {
			c.AlsoEnd = &stall.AlsoEnd{Command: []string{"", "x"}}
		}, "AlsoEnd.Command", "empty"},
		{"an AlsoEnd whose program is not there", func(c *stall.Config) {
			c.AlsoEnd = &stall.AlsoEnd{Command: []string{"no-such-program"}}
		}, "AlsoEnd.Command", "not found in $PATH"},
		{"an AlsoEnd with a negative timeout", func(c *stall.Config) {
			c.AlsoEnd = &stall.AlsoEnd{Command: []string{"true"}, Timeout: -4}
		}, "AlsoEnd.Timeout", "-4ns"},
		{"a tail of no bytes", func(c *stall.Config) { c.Tail = &stall.Tail{Redact: keep} }, "Tail.Bytes", "0"},
		{"a tail of too many bytes", func(c *stall.Config) {
			c.Tail = &stall.Tail{Redact: keep, Bytes: 1<<20 + 1}
		}, "Tail.Bytes", "1048577"},
		{"a tail that nobody redacts", func(c *stall.Config) { c.Tail = &stall.Tail{Bytes: 1} }, "Tail.Redact", "not set"},
		{"a tail without a folder", func(c *stall.Config) {
			c.Tail, c.Artifacts = &stall.Tail{Bytes: 1, Redact: keep}, ""
		}, "Artifacts", "not"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			c.change(&f.cfg)
			for _, f.cfg.Disabled = range []bool{false, true} {
				err := startsNothing(f, func(cmd *exec.Cmd) *exec.Cmd { return cmd })
				require.ErrorIs(t, err, watchdog.ErrInvalid)
				require.ErrorContains(t, err, c.field)
				require.ErrorContains(t, err, c.value)
			}
		})
	}
	t.Run("without a store", func(t *testing.T) {
		f := newFixture(t)
		f.cfg.Store, f.cfg.NoOutput = nil, longTime
		require.ErrorIs(t, startsNothing(f, func(cmd *exec.Cmd) *exec.Cmd { return cmd }), watchdog.ErrInvalid)
	})
}

// startsNothing runs a command that would leave a file, and checks that nothing was started, written or stored.
func startsNothing(f *fixture, change func(*exec.Cmd) *exec.Cmd) error {
	f.Helper()
	touched := filepath.Join(f.TempDir(), "touched")
	result, err := stall.Run(f.Context(), change(command(f, "touch:"+touched)), f.cfg)
	require.Nil(f, result)
	require.Error(f, err)
	require.False(f, exists(touched))
	require.Empty(f, f.artifacts())
	require.Empty(f, f.events(event.Cancel))
	return err
}

func TestInvalidCommand(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*exec.Cmd) *exec.Cmd
		is     error
		says   string
	}{
		{"none", func(*exec.Cmd) *exec.Cmd { return nil }, watchdog.ErrInvalid, "nil"},
		{"one with a context", func(cmd *exec.Cmd) *exec.Cmd {
			return exec.CommandContext(context.Background(), cmd.Path, cmd.Args[1:]...)
		}, watchdog.ErrInvalid, "CommandContext"},
		{"one with a WaitDelay", func(cmd *exec.Cmd) *exec.Cmd {
			cmd.WaitDelay = 1
			return cmd
		}, watchdog.ErrInvalid, "WaitDelay"},
		{"one that was started", func(cmd *exec.Cmd) *exec.Cmd {
			cmd.Process = &os.Process{Pid: math.MaxInt32}
			return cmd
		}, watchdog.ErrInvalid, "started already"},
		{"too many files", func(cmd *exec.Cmd) *exec.Cmd {
			cmd.ExtraFiles = make([]*os.File, 200)
			return cmd
		}, watchdog.ErrInvalid, "200"},
		{"an attribute that the tree needs", func(cmd *exec.Cmd) *exec.Cmd {
			cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
			return cmd
		}, watchdog.ErrInvalid, "Ptrace"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFixture(t)
			f.cfg.NoOutput, f.cfg.Probe = time.Second, &stall.Probe{Command: []string{"true"}}
			err := startsNothing(f, c.change)
			require.ErrorIs(t, err, c.is)
			require.ErrorContains(t, err, c.says)
			require.True(t, strings.HasPrefix(err.Error(), "run step"), err)
		})
	}
}

// TestSymlink checks that Run starts nothing if a symbolic link is in the place of an artifact.
func TestSymlink(t *testing.T) {
	f := newFixture(t)
	outside, touched := t.TempDir(), filepath.Join(t.TempDir(), "touched")
	require.NoError(t, os.MkdirAll(filepath.Join(f.cfg.Artifacts, "step"), 0o700))
	require.NoError(t, os.Symlink(outside, filepath.Join(f.cfg.Artifacts, "step", "_stall")))
	result, err := stall.Run(t.Context(), command(t, "touch:"+touched), f.cfg)
	require.Nil(t, result)
	require.ErrorContains(t, err, "symbolic link")
	require.False(t, exists(touched))
	left, err := os.ReadDir(outside)
	require.NoError(t, err)
	require.Empty(t, left)
}

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
		parallel(t, name, func(t *testing.T) {
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
	c := newCommand(t, cmd, newFixture(t).cfg)
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
	inFixture(t, "and exits with status 0 then", func(t *testing.T, f *fixture) {
		cmd := f.terminal("obey:INT:0")
		_, err := f.run(cmd)
		var exit *exec.ExitError
		require.ErrorIs(t, err, watchdog.CommandTerminal)
		require.NotErrorAs(t, err, &exit)
		require.True(t, cmd.ProcessState.Success())
	})
	inFixture(t, "as an incomplete check", func(t *testing.T, f *fixture) {
		f.cfg.NoOutput, f.cfg.AsIncomplete = 100*time.Millisecond, true
		cmd := command(t, "stay")
		f.succeeds(cmd)
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
	f.cfg.Store = &endingStore{&faultyStore{f.store, broken}, func() { _ = script.Touch(tripped) }}
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
		parallel(t, name, func(t *testing.T) {
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
