package stall_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

var readyLine = []*regexp.Regexp{regexp.MustCompile("^" + ready + "$")}

// A stallCase makes a command that printed ready look stuck in one of the three ways.
type stallCase struct {
	kind    stall.TripKind
	code    watchdog.StopReason
	reason  string // of the event
	prepare func(*stall.Config)
}

func stallCases(t *testing.T) []stallCase {
	probe := childCommand(t, "print:{}")
	return []stallCase{
		{stall.KindNoOutput, watchdog.CommandNoOutput, "no_output", func(c *stall.Config) { c.NoOutput = time.Second }},
		{stall.KindNoProgress, watchdog.CommandNoProgress, "no_progress", func(c *stall.Config) {
			c.Probe = &stall.Probe{Command: probe, Interval: 300 * time.Millisecond, Timeout: longTime}
		}},
		{stall.KindTerminal, watchdog.CommandTerminal, "terminal", func(c *stall.Config) { c.Terminal = readyLine }},
	}
}

// TestRun trips each kind of signal with each action.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, p := range stallCases(t) {
		for _, action := range []stall.TripAction{stall.ActionInterrupt, stall.ActionFail, stall.ActionIgnore} {
			t.Run(string(p.kind)+" and "+string(action), func(t *testing.T) {
				t.Parallel()
				f := newFixture(t)
				f.cfg.OnStall, f.cfg.OnTerminal = action, action
				p.prepare(&f.cfg)
				if action == stall.ActionIgnore {
					checkIgnored(f, p)
				} else {
					checkEnded(f, p, action)
				}
			})
		}
	}
}

// checkEnded runs a command that an action ends.
func checkEnded(f *fixture, p stallCase, action stall.TripAction) {
	result, err := f.stalled(command(f, "print:"+ready, "stay"))
	require.ErrorIs(f, err, p.code)
	require.Equal(f, p.code, err.Stop.Code)
	require.Equal(f, "run/step", err.Stop.RunID)
	require.Equal(f, "run", err.Stop.Parent)
	require.Equal(f, p.kind, result.Trip.Kind)
	require.Equal(f, action, result.Trip.Action)
	require.Equal(f, []payload{{p.reason, "run"}}, f.events(watchdog.EventCancel), "exactly one, with its parent")
	ended := syscall.SIGINT
	if action == stall.ActionFail {
		ended = syscall.SIGKILL
	}
	require.Equal(f, ended, result.EndedBy)
	require.Equal(f, ended, result.Signal)
	require.Equal(f, -1, result.ExitCode)
	require.Equal(f, []syscall.Signal{ended}, signals(result))
	require.True(f, result.Terminated)
	require.Positive(f, result.MaxRSS)
	r := f.record()
	require.Equal(f, string(p.kind), r.Trigger.Kind)
	require.Equal(f, err.Stop.EventID(), r.EventID)
	require.True(f, r.Complete)
	require.True(f, r.Action.Terminated)
	require.Nil(f, r.Action.ExitCode)
}

// checkIgnored runs a command that goes on after its trip and exits by itself.
func checkIgnored(f *fixture, p stallCase) {
	event := filepath.Join(f.cfg.Artifacts, "step", "_stall", "event.json")
	result, err := f.run(command(f, "print:"+ready, "await:"+event, "exit:4"))
	var exit *exec.ExitError
	require.ErrorAs(f, err, &exit)
	require.Equal(f, 4, exit.ExitCode())
	require.True(f, result.Finished)
	require.Empty(f, result.Sent)
	require.Equal(f, p.kind, result.Trip.Kind)
	require.Equal(f, stall.ActionIgnore, result.Trip.Action)
	require.Empty(f, f.events(watchdog.EventCancel))
	require.Len(f, f.events(watchdog.EventWarning), 1)
	r := f.record()
	require.Equal(f, "ignore", r.Action.Kind)
	require.Empty(f, r.Action.Requested)
	require.True(f, r.Complete)
	require.Equal(f, 4, *r.Action.ExitCode)
	require.Empty(f, r.EventID)
}

func TestGrace(t *testing.T) {
	t.Parallel()
	all := []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGKILL}
	for _, c := range []struct {
		name    string
		steps   []string
		ended   int // index of the signal that ends it
		atLeast time.Duration
		code    int
		signal  syscall.Signal
	}{
		{"a command that obeys SIGINT", words("obey:INT:7"), 0, 0, 7, 0},
		{"a command that ignores SIGINT", words("ignore:INT obey:TERM:8"), 1, 400 * time.Millisecond, 8, 0},
		{"a command that ignores both", words("ignore:INT,TERM"), 2, 700 * time.Millisecond, -1, syscall.SIGKILL},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			f.cfg.Terminal = readyLine
			f.cfg.Grace = graces(400*time.Millisecond, 300*time.Millisecond)
			if c.ended == 0 {
				f.cfg.Grace[0].Grace = longTime
			}
			if c.ended == 1 {
				f.cfg.Grace[1].Grace = longTime
			}
			result, _ := f.stalled(command(t, append(c.steps, "print:"+ready, "stay")...))
			require.Equal(t, all, result.Requested)
			require.Equal(t, all[:c.ended+1], signals(result))
			require.Equal(t, all[c.ended], result.EndedBy)
			require.Equal(t, c.code, result.ExitCode)
			require.Equal(t, c.signal, result.Signal)
			require.True(t, result.Terminated)
			took := result.Trip.ObservedAt.Add(c.atLeast)
			require.False(t, time.Now().Before(took), "the graces were waited for")
			for i := 1; i < len(result.Sent); i++ {
				require.GreaterOrEqual(t, result.Sent[i].At.Sub(result.Sent[i-1].At), 300*time.Millisecond)
			}
			r := f.record()
			require.Equal(t, words("SIGINT SIGTERM SIGKILL"), r.Action.Requested)
			require.Len(t, r.Action.Sent, c.ended+1)
			require.Equal(t, []string{"SIGINT", "SIGTERM", "SIGKILL"}[c.ended], r.Action.EndedBy)
		})
	}
	t.Run("can be none", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.Terminal, f.cfg.Grace = readyLine, graces(0, 0)
		result, _ := f.stalled(command(t, "ignore:INT,TERM", "print:"+ready, "stay"))
		require.Less(t, result.Sent[len(result.Sent)-1].At.Sub(result.Trip.ObservedAt), slack)
		require.Equal(t, syscall.SIGKILL, result.EndedBy)
	})
}

// TestSignalTree checks that a signal reaches the children of the command, too.
func TestSignalTree(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.cfg.Terminal = readyLine
	cmd := command(t, "child:print:there;stay", "print:"+ready, "stay")
	result, _ := f.stalled(cmd)
	require.Equal(t, 2, result.Sent[0].Processes)
}

// An endingStore ends the command when the cancel is recorded: after the trip, before the first signal.
type endingStore struct {
	watchdog.EventStore
	end func()
}

func (s *endingStore) Append(ctx context.Context, events ...watchdog.Event) error {
	s.end()
	return s.EventStore.Append(ctx, events...)
}

// TestFinishedBeforeSignal checks that a command that exits after its trip and before the first signal has finished.
func TestFinishedBeforeSignal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		code string
	}{{"with success", "0"}, {"with a failure", "5"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			end := filepath.Join(t.TempDir(), "end")
			cmd := command(t, "print:"+ready, "await:"+end, "exit:"+c.code)
			f.cfg.Terminal, f.cfg.RecordTimeout = readyLine, longTime
			f.cfg.Store = &endingStore{f.store, func() {
				_ = exec.Command("touch", end).Run()
				eventually(t, "the command ends", func() bool { return len(processesWith(tokenOf(cmd))) == 0 })
				time.Sleep(100 * time.Millisecond) // until the guard has reported the exit
			}}
			result, err := f.run(cmd)
			require.True(t, result.Finished)
			require.Empty(t, result.Sent)
			require.False(t, result.Terminated)
			require.Zero(t, result.EndedBy)
			require.Len(t, result.Requested, 3, "they are listed, though none was sent")
			require.Equal(t, c.code != "0", err != nil)
			var stalled *stall.Stalled
			require.NotErrorAs(t, err, &stalled)
			r := f.record()
			require.True(t, r.Complete)
			require.Empty(t, r.Action.Sent)
			require.False(t, r.Action.Terminated)
			require.Equal(t, c.code == "5", *r.Action.ExitCode == 5)
		})
	}
}

// TestExit runs commands that exit by themselves.
func TestExit(t *testing.T) {
	t.Parallel()
	t.Run("with success", func(t *testing.T) {
		f := newFixture(t)
		result, err := f.run(command(t))
		require.NoError(t, err)
		require.True(t, result.Finished)
		require.Zero(t, result.ExitCode)
		require.Nil(t, result.Trip)
		require.Empty(t, result.Requested)
		require.Empty(t, result.Artifacts)
		require.Empty(t, f.artifacts(), "no trip, no artifacts")
		require.Positive(t, result.Elapsed)
		require.Equal(t, "run/step", result.RunID)
		require.Empty(t, f.events(watchdog.EventCancel))
	})
	t.Run("with a status", func(t *testing.T) {
		_, err := newFixture(t).run(command(t, "exit:3"))
		require.EqualError(t, err, "exit status 3")
		exit, itself := asExit(err)
		require.True(t, itself)
		require.Equal(t, 3, exit.ExitCode())
	})
	t.Run("by a signal", func(t *testing.T) {
		result, err := newFixture(t).run(command(t, "kill:KILL"))
		require.EqualError(t, err, "signal: killed")
		require.Equal(t, -1, result.ExitCode)
		require.Equal(t, syscall.SIGKILL, result.Signal)
	})
	t.Run("in its folder, with its environment", func(t *testing.T) {
		cmd := command(t, "pwd", "env:COLOUR")
		cmd.Dir = t.TempDir()
		cmd.Env = append([]string{"COLOUR=green"}, cmd.Env...)
		var out strings.Builder
		cmd.Stdout = &out
		_, err := newFixture(t).run(cmd)
		require.NoError(t, err)
		require.Equal(t, cmd.Dir+"\ngreen\n", out.String())
	})
}

func TestConcurrentRuns(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var all sync.WaitGroup
	for n := range 16 {
		cfg := f.cfg
		cfg.Step = "step" + string(rune('a'+n))
		if n%2 == 1 {
			cfg.Terminal = readyLine
		}
		cmd := command(t, "print:"+ready, "sleep:20ms")
		if n%2 == 1 {
			cmd = command(t, "print:"+ready, "stay")
		}
		all.Go(func() {
			result, err := stall.Run(t.Context(), cmd, cfg)
			assert.Equal(t, n%2 == 1, err != nil, "%v", err)
			assert.Equal(t, n%2 == 0, result.Finished)
			assert.Equal(t, n%2 == 1, result.Terminated)
			assert.Equal(t, "run/"+cfg.Step, result.RunID)
		})
	}
	all.Wait()
}

// TestLeftBehind runs commands that leave a process behind.
func TestLeftBehind(t *testing.T) {
	t.Parallel()
	t.Run("is ended", func(t *testing.T) {
		f := newFixture(t)
		result, err := f.run(command(t, "daemon:print:"+ready+";stay"))
		require.NoError(t, err)
		require.Equal(t, 1, result.LeftBehind)
		require.True(t, result.Finished)
		require.Empty(t, result.Sent)
	})
	t.Run("is ended in time though it ignores SIGTERM and keeps the output open", func(t *testing.T) {
		f := newFixture(t)
		cmd := command(t, "daemon:ignore:TERM,INT;print:"+ready+";stay")
		cmd.Stdout = new(strings.Builder)
		began := time.Now()
		result, err := f.run(cmd)
		require.NoError(t, err)
		require.Equal(t, 1, result.LeftBehind)
		within(t, time.Second+slack, began)
	})
	t.Run("stays with KeepBackground", func(t *testing.T) {
		f := newFixture(t)
		f.cfg.KeepBackground = true
		kept := filepath.Join(t.TempDir(), "kept")
		cmd := command(t, "daemon:print:"+ready+";keep:"+kept)
		result, err := f.run(cmd)
		require.NoError(t, err)
		require.Zero(t, result.LeftBehind)
		left := processesWith(tokenOf(cmd))
		require.Len(t, left, 1)
		eventually(t, "it goes on working", func() bool { return exists(kept) })
		require.NoError(t, syscall.Kill(left[0], syscall.SIGKILL))
		eventually(t, "it ends", func() bool { return len(processesWith(tokenOf(cmd))) == 0 })
	})
	t.Run("stays with KeepBackground whatever runs after it, though nothing marks it", func(t *testing.T) {
		f := newFixture(t)
		f.cfg.KeepBackground = true
		cmd := command(t, "daemon:unmark;print:"+ready+";stay")
		_, err := f.run(cmd)
		require.NoError(t, err)
		for range 5 {
			_, err := newFixture(t).run(command(t, "daemon:print:"+ready+";stay"))
			require.NoError(t, err)
		}
		left := processesWith(tokenOf(cmd))
		require.Len(t, left, 1)
		require.NoError(t, syscall.Kill(left[0], syscall.SIGKILL))
		eventually(t, "it ends", func() bool { return len(processesWith(tokenOf(cmd))) == 0 })
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
				result, err := f.run(cmd)
				require.NoError(t, err)
				require.NoError(t, result.OutputErr)
				left := processesWith(tokenOf(cmd))
				require.Len(t, left, 1)
				before := size(log)
				eventually(t, "it has written more than a pipe holds", func() bool { return size(log) > before+200*7 })
				require.NoError(t, syscall.Kill(left[0], syscall.SIGKILL))
				eventually(t, "it ends", func() bool { return len(processesWith(tokenOf(cmd))) == 0 })
			})
		}
	})
	t.Run("does not stay after a trip, even with KeepBackground", func(t *testing.T) {
		f := newFixture(t)
		f.cfg.KeepBackground, f.cfg.Terminal = true, readyLine
		result, _ := f.stalled(command(t, "daemon:print:"+ready+";stay", "print:"+ready, "stay"))
		require.Equal(t, 2, result.Sent[0].Processes)
	})
}

func size(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}
