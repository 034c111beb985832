package stall_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// An endedElsewhere is a command that has work elsewhere, and its way to end.
type endedElsewhere struct {
	*fixture
	e   elsewhere
	cmd *exec.Cmd
	ctx context.Context //nolint:containedctx // it is an argument of the test
	end context.CancelCauseFunc
}

func newEndedElsewhere(t *testing.T) *endedElsewhere {
	t.Helper()
	f := &endedElsewhere{fixture: newFixture(t), e: newElsewhere(t)}
	f.cmd = command(t, f.e.step("start"), "print:"+ready, "stay")
	f.ctx, f.end = context.WithCancelCause(t.Context())
	t.Cleanup(func() { f.end(nil) })
	f.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, f.e.step("end")), Timeout: longTime}
	return f
}

// endWhenReady ends the context when the work has begun.
func (f *endedElsewhere) endWhenReady() { f.cmd.Stdout = &onFirstWrite{func() { f.end(errEnough) }} }

func (f *endedElsewhere) run() (*stall.Result, error) {
	f.Helper()
	result, err := stall.Run(f.ctx, f.cmd, f.cfg)
	require.NotNil(f, result, "%v", err)
	return result, err
}

// elsewhereEndings are the ways in which Run ends a command.
var elsewhereEndings = []struct {
	name string
	set  func(*endedElsewhere)
	is   error
}{
	{"a trip", func(f *endedElsewhere) { f.cfg.Terminal = readyLine }, watchdog.CommandTerminal},
	{"a trip with the action fail", func(f *endedElsewhere) {
		f.cfg.Terminal, f.cfg.OnTerminal = readyLine, stall.ActionFail
	}, watchdog.CommandTerminal},
	{"the end of the context", (*endedElsewhere).endWhenReady, errEnough},
	{"the end of the context, after a trip that was ignored", func(f *endedElsewhere) {
		f.cfg.Terminal, f.cfg.OnTerminal = readyLine, stall.ActionIgnore
		f.endWhenReady()
	}, errEnough},
	{"the end of the context of a sentinel that is disabled", func(f *endedElsewhere) {
		f.cfg.Disabled = true
		f.endWhenReady()
	}, errEnough},
	{"the wall clock", func(f *endedElsewhere) { f.cfg.WallClock = 5 * time.Second }, watchdog.WallClockExceeded},
	{"the end of the run around it", func(f *endedElsewhere) {
		f.cfg.Store, f.cfg.RunID = nil, ""
		w, ctx := outerRun(f, f.store, watchdog.Budget{}, false)
		f.ctx = ctx
		f.cmd.Stdout = &onFirstWrite{func() {
			_, _ = w.Cancel(watchdog.Cancellation{Reason: watchdog.CommandNoProgress})
		}}
	}, watchdog.CommandNoProgress},
}

// TestAlsoEnd checks that AlsoEnd ends what runs elsewhere whenever Run ends the command.
func TestAlsoEnd(t *testing.T) {
	t.Parallel()
	for _, c := range elsewhereEndings {
		t.Run("after "+c.name, func(t *testing.T) {
			t.Parallel()
			f := newEndedElsewhere(t)
			c.set(f)
			result, err := f.run()
			require.ErrorIs(t, err, c.is)
			require.NotErrorIs(t, err, stall.ErrAlsoEnd)
			require.NotNil(t, result.AlsoEnded)
			require.NoError(t, result.AlsoEnded.Err)
			require.Zero(t, result.AlsoEnded.ExitCode)
			require.Empty(t, result.AlsoEnded.Failed)
			require.Positive(t, result.AlsoEnded.Elapsed)
			require.True(t, result.Terminated)
			require.False(t, f.e.alive(f.cmd))
		})
		t.Run("without it the work goes on after "+c.name, func(t *testing.T) {
			t.Parallel()
			f := newEndedElsewhere(t)
			c.set(f)
			f.cfg.AlsoEnd = nil
			result, err := f.run()
			require.ErrorIs(t, err, c.is)
			require.Nil(t, result.AlsoEnded)
			require.True(t, f.e.alive(f.cmd))
		})
	}
}

// TestAlsoEndFinished checks that AlsoEnd is not executed for a command that exited by itself.
func TestAlsoEndFinished(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		steps []string
		code  int
	}{
		{"with status 0", nil, 0},
		{"with a failure", []string{"exit:3"}, 3},
		{"and left a process behind", []string{"daemon:print:" + ready + ";stay"}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f := newEndedElsewhere(t)
			f.cmd = command(t, append([]string{f.e.step("start")}, c.steps...)...)
			result, _ := f.run()
			require.True(t, result.Finished)
			require.Equal(t, c.code, result.ExitCode)
			require.Nil(t, result.AlsoEnded)
			require.True(t, f.e.alive(f.cmd))
		})
	}
	t.Run("while its cancel was recorded", func(t *testing.T) {
		t.Parallel()
		f := newEndedElsewhere(t)
		file := filepath.Join(t.TempDir(), "end")
		f.cmd = command(t, f.e.step("start"), "print:"+ready, "await:"+file)
		f.cfg.Terminal = readyLine
		f.cfg.Store = plainStore{&lateStore{Memory: f.store, before: func() {
			leader := leaderOf(t, f.cmd)
			_ = childSteps["touch"](file)
			exits(t, leader)
		}}}
		result, err := f.run()
		require.NoError(t, err)
		require.True(t, result.Finished)
		require.Nil(t, result.AlsoEnded)
		require.Nil(t, f.record().AlsoEnd)
		require.True(t, f.e.alive(f.cmd))
	})
	t.Run("or was never started", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		touched := filepath.Join(t.TempDir(), "touched")
		f.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, "touch:"+touched)}
		cmd := command(t)
		cmd.Path = "/no/such/program"
		result, err := stall.Run(t.Context(), cmd, f.cfg)
		require.Error(t, err)
		require.Nil(t, result)
		require.NoFileExists(t, touched)
	})
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
