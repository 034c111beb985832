package stall_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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

// A conversation is a started command and its pipes.
type conversation struct {
	*stall.Command
	in   io.WriteCloser
	out  io.ReadCloser
	errs io.ReadCloser
}

// newConversation makes a command with three pipes and does not start it.
func (f *fixture) newConversation(cmd *exec.Cmd) *conversation {
	f.Helper()
	c, err := stall.NewCommand(cmd, f.cfg)
	require.NoError(f, err)
	in, err := c.StdinPipe()
	require.NoError(f, err)
	out, err := c.StdoutPipe()
	require.NoError(f, err)
	errs, err := c.StderrPipe()
	require.NoError(f, err)
	return &conversation{c, in, out, errs}
}

func (f *fixture) talk(ctx context.Context, cmd *exec.Cmd) *conversation {
	f.Helper()
	c := f.newConversation(cmd)
	require.NoError(f, c.Start(ctx))
	return c
}

func all(tb testing.TB, from io.Reader) string {
	tb.Helper()
	text, err := io.ReadAll(from)
	require.NoError(tb, err)
	return string(text)
}

func TestConversation(t *testing.T) {
	t.Parallel()
	inFixture(t, "a host writes, reads the answers and waits", func(t *testing.T, f *fixture) {
		cmd := command(t, "warn:listening", "answer")
		c := f.talk(t.Context(), cmd)
		answers := bufio.NewScanner(c.out)
		for n := range 100 {
			_, err := fmt.Fprintln(c.in, n)
			require.NoError(t, err)
			require.True(t, answers.Scan())
			require.Equal(t, "you said "+strconv.Itoa(n), answers.Text())
		}
		require.Equal(t, []int{c.Pid()}, processesWith(tokenOf(cmd)))
		require.NoError(t, c.in.Close())
		require.NoError(t, c.in.Close(), "a second time")
		require.False(t, answers.Scan())
		require.NoError(t, answers.Err())
		require.Equal(t, "listening\n", all(t, c.errs))
		result := waited(t, c)
		require.True(t, result.Finished)
		require.NoError(t, result.OutputErr)
		require.True(t, cmd.ProcessState.Success())
		require.Nil(t, cmd.Process)
		again := waited(t, c)
		require.Same(t, result, again)
	})
	parallel(t, "45 pipes at once", func(t *testing.T) {
		var talks sync.WaitGroup
		for range 15 {
			f := newFixture(t)
			c := f.talk(t.Context(), command(t, "warn:listening", "answer"))
			talks.Go(func() {
				text := strings.Repeat("much more than a pipe holds\n", 10_000)
				go func() {
					_, _ = io.WriteString(c.in, text)
					_ = c.in.Close()
				}()
				out, err := io.ReadAll(c.out)
				assert.NoError(t, err)
				assert.Equal(t, strings.ReplaceAll(text, "much", "you said much"), string(out))
				errs, err := io.ReadAll(c.errs)
				assert.NoError(t, err)
				assert.Equal(t, "listening\n", string(errs))
				_, err = c.Wait()
				assert.NoError(t, err)
			})
		}
		talks.Wait()
	})
	inFixture(t, "both outputs can be one pipe, which keeps their order", func(t *testing.T, f *fixture) {
		cmd := command(t, "alternate:1000")
		c := newCommand(t, cmd, f.cfg)
		out, err := c.StdoutPipe()
		require.NoError(t, err)
		cmd.Stderr = cmd.Stdout
		require.NoError(t, c.Start(t.Context()))
		lines := strings.Fields(all(t, out))
		require.Len(t, lines, 1000)
		for n, line := range lines {
			require.Equal(t, strconv.Itoa(n), line)
		}
		waited(t, c)
	})
	inFixture(t, "an output that the command closes has ended, and the command goes on", func(t *testing.T, f *fixture) {
		c := f.talk(t.Context(), command(t, "print:"+ready, "quiet", "answer"))
		require.Equal(t, ready+"\n", all(t, c.out))
		require.NoError(t, c.in.Close())
		waited(t, c)
	})
}

func TestHostDoesNotRead(t *testing.T) {
	t.Parallel()
	const waits = "the command waits, which is no silence, and what it wrote can be read after its end"
	inFixture(t, waits, func(t *testing.T, f *fixture) {
		f.cfg.NoOutput = 2 * time.Second
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		c := f.talk(ctx, command(t, "flood:"+floodSize))
		result, err := c.Wait()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Nil(t, result.Trip)
		require.NoError(t, result.OutputErr)
		read := len(all(t, c.out))
		require.GreaterOrEqual(t, read, 64<<10)
		require.Less(t, read, 2<<20)
	})
	inFixture(t, "a little output that the host does not read hides no silence", func(t *testing.T, f *fixture) {
		f.cfg.NoOutput = 3 * time.Second
		c := f.talk(t.Context(), command(t, "print:"+ready, "stay"))
		_, err := c.Wait()
		require.ErrorIs(t, err, watchdog.CommandNoOutput)
		require.Equal(t, ready+"\n", all(t, c.out))
	})
	inFixture(t, "a host that closes its end early ends the command's writing", func(t *testing.T, f *fixture) {
		c := f.talk(t.Context(), command(t, "every:1ms:x"))
		_, err := c.out.Read(make([]byte, 1))
		require.NoError(t, err)
		require.NoError(t, c.out.Close())
		_, err = c.out.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrClosed)
		result, err := c.Wait()
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
		require.Equal(t, syscall.SIGPIPE, exit.Sys().(syscall.WaitStatus).Signal())
		require.Equal(t, -1, exit.ExitCode())
		require.Error(t, result.OutputErr)
	})
}

// TestNeverWaited leaves a command alone. That no goroutine is left is checked at the end of all tests.
func TestNeverWaited(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cmd := f.terminal("child:print:"+ready+";stay", "flood:1000", "print:")
	f.talk(t.Context(), cmd)
	eventually(t, "it is ended", func() bool { return len(processesWith(tokenOf(cmd))) == 0 })
	eventually(t, "its artifacts are complete", func() bool { return f.record().Complete })
}

// TestStartFails checks that pipes end also if the command cannot be started, or is refused before anything is opened
// for it.
func TestStartFails(t *testing.T) {
	before := descriptors(t)
	for n := range 20 {
		f := newFixture(t)
		path, is := "/no/such/program", os.ErrNotExist
		if n%2 == 0 {
			f.cfg.Store, f.cfg.NoOutput, path, is = nil, longTime, "true", watchdog.ErrInvalid
		}
		c := f.newConversation(exec.Command(path))
		require.ErrorIs(t, c.Start(t.Context()), is)
		require.Empty(t, all(t, c.out))
		require.Empty(t, all(t, c.errs))
		_, err := c.in.Write([]byte("x"))
		require.ErrorIs(t, err, syscall.EPIPE)
		require.Zero(t, c.Pid())
		_, err = c.Wait()
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		require.ErrorContains(t, c.Start(t.Context()), "Start was called already; make a new exec.Cmd and a new Command")
	}
	require.Less(t, descriptors(t), before+8)
}

// TestDescriptors checks that commands leave no descriptors open, of pipes that the host never closes or of files that
// are watched.
func TestDescriptors(t *testing.T) {
	before := descriptors(t)
	for range 12 {
		f := newFixture(t)
		f.cfg.NoOutput = longTime
		waited(t, f.talk(t.Context(), command(t, "print:x")))
		cmd := command(t)
		file, err := os.Create(filepath.Join(t.TempDir(), "out"))
		require.NoError(t, err)
		cmd.Stdout = file
		f.succeeds(cmd)
		require.NoError(t, file.Close())
	}
	require.Less(t, descriptors(t), before+8)
}

// TestWrappedPipe checks that Wait waits for no reader if the host put a writer around the command's pipe.
func TestWrappedPipe(t *testing.T) {
	t.Parallel()
	const size = 120_000 // more than a pipe holds while the command runs
	f := newFixture(t)
	cmd := command(t, "flood:120000")
	c := newCommand(t, cmd, f.cfg)
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	var log bytes.Buffer
	cmd.Stdout = io.MultiWriter(&log, cmd.Stdout)
	require.NoError(t, c.Start(t.Context()))
	result := waited(t, c)
	require.NoError(t, result.OutputErr)
	require.Len(t, all(t, out), size)
	require.Equal(t, size, log.Len())
}

// TestPipeOfAnotherCommand checks that one command cannot end the pipes of another.
func TestPipeOfAnotherCommand(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	cmd := command(t, "answer")
	c := f.newConversation(cmd)
	other := *cmd
	_, err := stall.Run(t.Context(), &other, f.cfg)
	require.ErrorIs(t, err, watchdog.ErrInvalid)
	require.ErrorContains(t, err, "Stdin is a pipe of another Command; make an exec.Cmd for each")
	require.NoError(t, c.Start(t.Context()))
	_, err = io.WriteString(c.in, "hello\n")
	require.NoError(t, err)
	require.NoError(t, c.in.Close())
	require.Equal(t, "you said hello\n", all(t, c.out))
	waited(t, c)
}

// TestBareHost checks that a write to a command that has ended does not end a host without standard streams.
func TestBareHost(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"bare:", "feed:"} {
		path := filepath.Join(t.TempDir(), "result")
		require.NoError(t, command(t, step+path).Run())
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, "true", string(text))
	}
}

// bare:FILE closes its standard streams, writes to a command that has ended, and writes to the file whether an error
// said so.
func bare(path string) error {
	if err := closeStandard(); err != nil {
		return err
	}
	c, err := stall.NewCommand(exec.Command("true"), stall.Config{Step: "step", Logger: discard})
	if err != nil {
		return err
	}
	in, err := c.StdinPipe()
	if err != nil {
		return err
	}
	if err := c.Start(context.Background()); err != nil {
		return err
	}
	for err == nil {
		_, err = in.Write(make([]byte, 1<<20))
	}
	_, failed := c.Wait()
	return os.WriteFile(path, fmt.Append(nil, errors.Is(err, syscall.EPIPE) && failed == nil), 0o600)
}

// feed:FILE is the same for an input that is a reader.
func feed(path string) error {
	if err := closeStandard(); err != nil {
		return err
	}
	cmd := exec.Command("true")
	r, w := io.Pipe()
	cmd.Stdin = r
	_, failed := stall.Run(context.Background(), cmd, stall.Config{Step: "step", Logger: discard})
	_, _ = w.Write([]byte("x"))        // what copies it finds that the command has ended
	time.Sleep(200 * time.Millisecond) // nothing tells when, but SIGPIPE
	return os.WriteFile(path, fmt.Append(nil, failed == nil), 0o600)
}

func closeStandard() error {
	return errors.Join(os.Stdin.Close(), os.Stdout.Close(), os.Stderr.Close())
}

// TestMisuse makes each call of a command that is out of order.
func TestMisuse(t *testing.T) {
	t.Parallel()
	stdin := func(c *stall.Command) error { _, err := c.StdinPipe(); return err }
	stdout := func(c *stall.Command) error { _, err := c.StdoutPipe(); return err }
	stderr := func(c *stall.Command) error { _, err := c.StderrPipe(); return err }
	wait := func(c *stall.Command) error { _, err := c.Wait(); return err }
	start := func(c *stall.Command) error { return c.Start(t.Context()) }
	send := func(c *stall.Command) error { return c.Signal(syscall.SIGTERM) }
	list := func(c *stall.Command) error { _, err := c.Processes(); return err }
	type calls []func(*stall.Command) error
	for _, c := range []struct {
		name   string
		before calls
		call   func(*stall.Command) error
		says   string
	}{
		{"Wait before Start", nil, wait, "Wait was called, but it is not started; call Wait"},
		{"Signal before Start", nil, send, "Signal was called, but it is not started; call Signal"},
		{"Kill before Start", nil, (*stall.Command).Kill, "Kill was called, but it is not started; call Kill after Start"},
		{"Processes before Start", nil, list, "Processes was called, but it is not started"},
		{"Start twice", calls{start}, start, "Start was called already; make a new"},
		{"a pipe to standard input after Start", calls{start}, stdin, "StdinPipe was called after Start; call it before"},
		{"a pipe from standard output after Start", calls{start}, stdout, "StdoutPipe was called after Start"},
		{"a pipe from standard error after Start", calls{start}, stderr, "StderrPipe was called after Start"},
		{"a pipe to standard input twice", calls{stdin}, stdin, "Stdin is set already; leave it nil and call StdinPipe once"},
		{"a pipe from standard output twice", calls{stdout}, stdout, "Stdout is set already; leave it nil and call StdoutPipe"},
		{"a pipe from standard error twice", calls{stderr}, stderr, "Stderr is set already; leave it nil and call StderrPipe"},
	} {
		parallel(t, c.name, func(t *testing.T) {
			made := newCommand(t, command(t), newFixture(t).cfg)
			for _, call := range c.before {
				require.NoError(t, call(made))
			}
			err := c.call(made)
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, c.says)
			require.True(t, strings.HasPrefix(err.Error(), "run step step: "), err)
			if made.Pid() != 0 {
				waited(t, made)
			}
		})
	}
	t.Run("a pipe in place of a writer", func(t *testing.T) {
		cmd := command(t)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(""), io.Discard, io.Discard
		made := newCommand(t, cmd, newFixture(t).cfg)
		for _, call := range []func(*stall.Command) error{stdin, stdout, stderr} {
			require.ErrorIs(t, call(made), watchdog.ErrInvalid)
		}
	})
	t.Run("a command that NewCommand did not make", func(t *testing.T) {
		for _, call := range []func(*stall.Command) error{stdin, stdout, stderr, start, wait, send, list, (*stall.Command).Kill} {
			err := call(&stall.Command{})
			require.ErrorIs(t, err, watchdog.ErrInvalid)
			require.ErrorContains(t, err, "NewCommand")
		}
		require.Zero(t, new(stall.Command).Pid())
	})
	t.Run("a config or a command that cannot be used", func(t *testing.T) {
		_, err := stall.NewCommand(exec.Command("true"), stall.Config{})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
		_, err = stall.NewCommand(nil, stall.Config{Step: "step"})
		require.ErrorIs(t, err, watchdog.ErrInvalid)
	})
}

// TestExecPipes checks that a pipe of package exec is refused wherever it was made, and that it holds nothing open
// then.
func TestExecPipes(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*exec.Cmd) (io.Closer, error){
		"StdinPipe":  func(cmd *exec.Cmd) (io.Closer, error) { return cmd.StdinPipe() },
		"StdoutPipe": func(cmd *exec.Cmd) (io.Closer, error) { return cmd.StdoutPipe() },
		"StderrPipe": func(cmd *exec.Cmd) (io.Closer, error) { return cmd.StderrPipe() },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			var pipe io.Closer
			refused := startsNothing(f, func(cmd *exec.Cmd) *exec.Cmd {
				var err error
				pipe, err = open(cmd)
				require.NoError(t, err)
				return cmd
			})
			require.ErrorIs(t, refused, watchdog.ErrInvalid)
			require.ErrorContains(t, refused, "make a stall.Command with NewCommand, and use the methods with these names")
			require.ErrorIs(t, pipe.Close(), os.ErrClosed)
		})
	}
	t.Run("after NewCommand", func(t *testing.T) {
		cmd := command(t)
		c := newCommand(t, cmd, newFixture(t).cfg)
		_, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.ErrorIs(t, c.Start(t.Context()), watchdog.ErrInvalid)
	})
	t.Run("pipes of the host's own are not", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer r.Close()
		cmd := command(t, "print:"+ready)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = r, w, w
		newFixture(t).succeeds(cmd)
		require.NoError(t, w.Close())
		require.Equal(t, ready+"\n", all(t, r))
	})
}

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
	inFixture(t, "that runs", func(t *testing.T, f *fixture) {
		cmd := command(t, stubborn...)
		c := f.begin(t.Context(), cmd)
		eventually(t, "all run", func() bool { return len(processesWith(tokenOf(cmd))) == 3 })
		require.Equal(t, processesWith(tokenOf(cmd)), sortedProcesses(t, c))
		result := killed(t, c)
		require.Empty(t, result.Sent)
		require.Nil(t, result.Trip)
	})
	inFixture(t, "whose background is to be kept", func(t *testing.T, f *fixture) {
		f.cfg.KeepBackground = true
		killed(t, f.begin(t.Context(), command(t, stubborn...)))
	})
	inFixture(t, "that is being ended", func(t *testing.T, f *fixture) {
		f.cfg.Grace = graces(longTime, longTime)
		ctx, cancel := context.WithCancel(t.Context())
		cmd := command(t, append(words("child:obey:INT:0;print:x;stay"), stubborn...)...)
		c := f.begin(ctx, cmd)
		cancel()
		eventually(t, "SIGINT has come", func() bool { return len(processesWith(tokenOf(cmd))) == 3 })
		killed(t, c, context.Canceled)
	})
	inFixture(t, "that has something elsewhere", func(t *testing.T, f *fixture) {
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
		result := waited(t, c)
		require.True(t, result.Finished)
		return c, func() []int { return processesWith(tokenOf(cmd)) }
	}
	parallel(t, "by a signal", func(t *testing.T) {
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
	parallel(t, "by a kill, stopped or not", func(t *testing.T) {
		c, alive := kept(t, "daemon:ignore:INT,TERM;print:there;stay", "daemon:print:there;stay", "print:"+ready)
		require.NoError(t, c.Signal(syscall.SIGSTOP))
		require.Len(t, alive(), 2)
		require.NoError(t, c.Kill())
		require.Empty(t, alive())
		requireDone(t, c)
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
		waited(t, c)
		eventually(t, "nothing is kept", func() bool { return !keep || errors.Is(c.Kill(), os.ErrProcessDone) })
		close(ended)
		callers.Wait()
		requireDone(t, c.Command)
	}
}
