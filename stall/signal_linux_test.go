package stall_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/stall"
)

// begin starts a command and waits until it prints that it is ready.
func (f *fixture) begin(ctx context.Context, cmd *exec.Cmd) *stall.Command {
	f.Helper()
	printed := make(chan struct{})
	cmd.Stdout = &onFirstWrite{sync.OnceFunc(func() { close(printed) })}
	c, err := stall.NewCommand(cmd, f.cfg)
	require.NoError(f, err)
	require.NoError(f, c.Start(ctx))
	<-printed
	return c
}

// requireDone checks that nothing of a command can be reached.
func requireDone(tb testing.TB, c *stall.Command) {
	tb.Helper()
	require.Equal(tb, os.ErrProcessDone, c.Signal(syscall.SIGTERM))
	require.Equal(tb, os.ErrProcessDone, c.Kill())
	alive, err := c.Processes()
	require.Equal(tb, os.ErrProcessDone, err)
	require.Empty(tb, alive)
}

func sortedProcesses(tb testing.TB, c *stall.Command) []int {
	tb.Helper()
	alive, err := c.Processes()
	require.NoError(tb, err)
	slices.Sort(alive)
	return alive
}

// TestCommandSignal signals a command, and not what it started.
func TestCommandSignal(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := f.begin(t.Context(), command(t, "child:print:there;stay", "obey:USR1:5", "print:"+ready, "stay"))
	for _, wrong := range []os.Signal{nil, strange{}, syscall.Signal(-1), syscall.Signal(65)} {
		require.ErrorIs(t, c.Signal(wrong), watchdog.ErrInvalid)
	}
	require.NoError(t, c.Signal(syscall.Signal(0)))
	require.NoError(t, c.Signal(syscall.SIGUSR1))
	result, err := c.Wait()
	require.Equal(t, 5, exitCode(t, err))
	require.True(t, result.Finished)
	require.Equal(t, 1, result.LeftBehind, "SIGUSR1 would have ended the child")
	require.Empty(t, result.Sent)
	requireDone(t, c)
}

// strange is a signal of another package.
type strange struct{}

func (strange) String() string { return "strange" }
func (strange) Signal()        {}

func exitCode(tb testing.TB, err error) int {
	tb.Helper()
	var exit interface{ ExitCode() int }
	require.ErrorAs(tb, err, &exit)
	return exit.ExitCode()
}

// TestKill ends a whole tree that ignores all that can be ignored.
func TestKill(t *testing.T) {
	t.Parallel()
	stubborn := words("ignore:INT,TERM daemon:ignore:INT,TERM;print:there;stay " +
		"child:print:x;stay print:" + ready + " stay")
	killed := func(t *testing.T, c *stall.Command, causes ...error) *stall.Result {
		began := time.Now()
		require.NoError(t, c.Kill())
		result, err := c.Wait()
		within(t, slack, began)
		require.False(t, result.Finished)
		require.True(t, result.Terminated)
		require.Equal(t, syscall.SIGKILL, result.EndedBy)
		require.Equal(t, syscall.SIGKILL, result.Signal)
		require.Zero(t, result.LeftBehind)
		requireDone(t, c)
		if len(causes) == 0 {
			require.Equal(t, -1, exitCode(t, err))
			require.ErrorContains(t, err, "killed")
		}
		for _, cause := range causes {
			require.ErrorIs(t, err, cause)
		}
		return result
	}
	t.Run("that runs", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		cmd := command(t, stubborn...)
		c := f.begin(t.Context(), cmd)
		eventually(t, "all run", func() bool { return len(processesWith(tokenOf(cmd))) == 3 })
		require.Equal(t, processesWith(tokenOf(cmd)), sortedProcesses(t, c))
		result := killed(t, c)
		require.Empty(t, result.Sent)
		require.Nil(t, result.Trip)
	})
	t.Run("whose background is to be kept", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.KeepBackground = true
		killed(t, f.begin(t.Context(), command(t, stubborn...)))
	})
	t.Run("that is being ended", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		f.cfg.Grace = graces(longTime, longTime)
		ctx, cancel := context.WithCancel(t.Context())
		cmd := command(t, append(words("child:obey:INT:0;print:x;stay"), stubborn...)...)
		c := f.begin(ctx, cmd)
		cancel()
		eventually(t, "SIGINT has come", func() bool { return len(processesWith(tokenOf(cmd))) == 3 })
		killed(t, c, context.Canceled)
	})
	t.Run("that has something elsewhere", func(t *testing.T) {
		t.Parallel()
		f := newFixture(t)
		file := filepath.Join(t.TempDir(), "ended")
		f.cfg.AlsoEnd = &stall.AlsoEnd{Command: childCommand(t, "touch:"+file)}
		result := killed(t, f.begin(t.Context(), command(t, stubborn...)))
		require.NotNil(t, result.AlsoEnded)
		require.True(t, exists(file))
	})
}

// TestSignalKept signals, lists and kills what was kept, by the command that started it.
func TestSignalKept(t *testing.T) {
	t.Parallel()
	kept := func(t *testing.T, steps ...string) (*stall.Command, func() []int) {
		f := newFixture(t)
		f.cfg.KeepBackground = true
		cmd := command(t, steps...)
		c := f.begin(t.Context(), cmd)
		result, err := c.Wait()
		require.NoError(t, err)
		require.True(t, result.Finished)
		return c, func() []int { return processesWith(tokenOf(cmd)) }
	}
	t.Run("by a signal", func(t *testing.T) {
		t.Parallel()
		c, alive := kept(t, "daemon:ignore:INT;print:there;stay", "daemon:ignore:INT;print:there;stay", "print:"+ready)
		require.Len(t, alive(), 2)
		require.Equal(t, alive(), sortedProcesses(t, c))
		require.NoError(t, c.Signal(syscall.SIGINT))
		require.Len(t, alive(), 2)
		require.NoError(t, c.Signal(syscall.SIGTERM))
		// One that is ending has no environment any more to be known by here, and can still be signalled.
		eventually(t, "both end", func() bool {
			return len(alive()) == 0 && errors.Is(c.Signal(syscall.SIGCONT), os.ErrProcessDone)
		})
		requireDone(t, c)
	})
	t.Run("by a kill, stopped or not", func(t *testing.T) {
		t.Parallel()
		c, alive := kept(t, "daemon:ignore:INT,TERM;print:there;stay", "daemon:print:there;stay", "print:"+ready)
		require.NoError(t, c.Signal(syscall.SIGSTOP))
		require.Len(t, alive(), 2)
		require.NoError(t, c.Kill())
		require.Empty(t, alive())
		requireDone(t, c)
	})
	t.Run("and nothing of another command", func(t *testing.T) {
		t.Parallel()
		first, ofFirst := kept(t, "daemon:print:there;stay", "print:"+ready)
		second, ofSecond := kept(t, "daemon:print:there;stay", "print:"+ready)
		require.NoError(t, first.Kill())
		require.Empty(t, ofFirst())
		require.Len(t, ofSecond(), 1)
		require.NoError(t, second.Kill())
	})
}

// TestSignalTogether calls everything at once, from before the start until after the end.
func TestSignalTogether(t *testing.T) {
	t.Parallel()
	for _, keep := range []bool{false, true} {
		f := newFixture(t)
		f.cfg.KeepBackground = keep
		c := f.newConversation(command(t, "daemon:print:there;stay", "answer"))
		ended := make(chan struct{})
		var callers sync.WaitGroup
		for _, call := range []func(){
			func() { _, _ = c.Processes() }, func() { _ = c.Signal(syscall.SIGCONT) }, func() { _ = c.Pid() },
			func() { _, _ = c.StdoutPipe() }, func() { _, _ = c.out.Read(make([]byte, 1)) },
		} {
			callers.Go(func() {
				for {
					select {
					case <-ended:
						return
					default:
						call()
					}
				}
			})
		}
		require.NoError(t, c.Start(t.Context()))
		for range 4 {
			callers.Go(func() {
				_, _ = io.WriteString(c.in, "line\n")
				_ = c.in.Close()
				result, err := c.Wait()
				assert.NoError(t, err)
				assert.True(t, result.Finished)
				if keep {
					_ = c.Kill()
				}
				assert.Error(t, c.Start(t.Context()))
			})
		}
		_, err := c.Wait()
		require.NoError(t, err)
		eventually(t, "nothing is kept", func() bool { return !keep || errors.Is(c.Kill(), os.ErrProcessDone) })
		close(ended)
		callers.Wait()
		requireDone(t, c.Command)
	}
}
