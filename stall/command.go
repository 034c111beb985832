package stall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/signame"
)

// A Command is a guarded command that is started, talked to and waited for. [Run] is all of it in one call, and says
// what becomes of the fields of the [exec.Cmd]:
//
//	c, err := stall.NewCommand(exec.Command("agent"), stall.Config{Step: "ask", Store: store, NoOutput: time.Minute})
//	in, err := c.StdinPipe()
//	out, err := c.StdoutPipe()
//	err = c.Start(ctx)
//	... write to in, read from out
//	result, err := c.Wait()
//
// The command is watched from Start on, whether or not anybody waits for it: limits, ctx and the run around it end it
// while the host still talks to it. The Idle and NoProgress of that run go on, because the host does: only Run has
// them stand still. If nobody ever calls Wait, nothing but memory is left after its end.
//
// A Command is for one start. All methods are safe for concurrent use, and so are those of its pipes. The exec.Cmd must
// not be changed or used for anything else from Start on. Its Process stays nil: use [Command.Pid]. Wait sets its
// ProcessState.
type Command struct {
	cmd *exec.Cmd
	cfg Config

	waited bool // by Run: the host does nothing else

	mu    sync.Mutex
	begun bool // Start was called
	pipes []pipe
	tree  *proctree.Tree // nil before Start has returned, and so is done
	done  chan struct{}  // closed when the command has ended

	killed atomic.Bool // Kill was called before the end

	result *Result // this and what follows is written before done is closed
	err    error
	state  *os.ProcessState
}

// NewCommand returns a command that is not started. It keeps cmd and copies cfg. What depends on the context of Start,
// such as a Store that is missing, is an error of Start. The error wraps [watchdog.ErrInvalid], or is the Err of cmd.
func NewCommand(cmd *exec.Cmd, cfg Config) (*Command, error) {
	if err := cmp.Or(cfg.check(), checkCommand(cmd)); err != nil {
		return nil, fmt.Errorf("run step %q: %w", cfg.Step, err)
	}
	cfg.Grace = slices.Clone(cfg.Grace)
	return &Command{cmd: cmd, cfg: cfg}, nil
}

// StdinPipe returns a pipe to the command's standard input. It must be called before Start.
//
// Close gives the command the end of its input. A Write waits while the command does not read, at most until the
// command's tree has ended: then the pipe is closed, and a Write returns an error that wraps [syscall.EPIPE]. Such an
// error never ends the host.
func (c *Command) StdinPipe() (io.WriteCloser, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkPipe("Stdin", func() bool { return c.cmd.Stdin != nil }); err != nil {
		return nil, err
	}
	p, err := newInputPipe()
	if err != nil {
		return nil, c.named(fmt.Errorf("make a pipe for standard input: %w", err))
	}
	c.cmd.Stdin = inputReader{p}
	c.pipes = append(c.pipes, p)
	return p, nil
}

// StdoutPipe returns a pipe from the command's standard output. It must be called before Start. For one pipe with both
// outputs, set Stderr of the [exec.Cmd] to its Stdout after it. A host may put a writer around Stdout, such as an
// [io.MultiWriter]; then Read returns [io.EOF] only at the end of the command.
//
// What passes through the pipe is watched like any output. A host that does not read blocks the command when 64 KiB are
// waiting; that is not silence. Read returns [io.EOF] when the command has closed its output, or when its tree has
// ended and all output was read, whoever else has the output open. The order of Read and Wait does not matter: Wait
// waits for no reader, and all that was written before the end can be read after it. At most 2 MiB are kept for that.
//
// Close before the end makes the command's second write from then on fail, with SIGPIPE or EPIPE, and
// [Result].OutputErr says so. After the end Close is not needed: an unread pipe is only memory.
func (c *Command) StdoutPipe() (io.ReadCloser, error) {
	return c.outputPipe("Stdout", func() *io.Writer { return &c.cmd.Stdout })
}

// StderrPipe returns a pipe from the command's standard error, as StdoutPipe does from standard output.
func (c *Command) StderrPipe() (io.ReadCloser, error) {
	return c.outputPipe("Stderr", func() *io.Writer { return &c.cmd.Stderr })
}

func (c *Command) outputPipe(name string, output func() *io.Writer) (io.ReadCloser, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.checkPipe(name, func() bool { return *output() != nil }); err != nil {
		return nil, err
	}
	p := newOutputPipe()
	*output() = outputWriter{p}
	c.pipes = append(c.pipes, p)
	return p, nil
}

// Start starts the command and begins to watch it. The command ends with ctx, and so does a start that hangs, which
// also ends with the run's limits and after ten seconds in any case.
//
// The errors are those of [Run] for a command that was not started. Then the pipes have ended, and the Command cannot
// be started again.
func (c *Command) Start(ctx context.Context) error {
	if err := c.begin(); err != nil {
		return err
	}
	s := &sentinel{cfg: c.cfg.inForce(ctx).complete(), pipes: c.pipes, killed: &c.killed, waited: c.waited}
	err := cmp.Or(checkCommand(c.cmd), c.checkPipes(), c.cfg.checkStore(ctx))
	if err == nil {
		err = s.open(ctx, c.cmd)
	}
	if err != nil {
		err = errors.Join(err, s.close())
		c.finishPipes()
		return c.named(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tree, c.done = s.tree, make(chan struct{})
	go c.guard(ctx, s)
	return nil
}

// Wait waits until no process that the command started is alive, and returns what [Run] returns. It waits for no host
// that does not read a pipe. It must be called after Start has returned, and may be called again: each call returns the
// same.
func (c *Command) Wait() (*Result, error) {
	if _, err := c.started("Wait"); err != nil {
		return nil, err
	}
	<-c.done
	c.setState()
	return c.result, c.err
}

// setState sets the ProcessState of the exec.Cmd once. Wait calls it, as with package exec, because the goroutine that
// calls Wait may read the field before, to see whether the command has ended.
func (c *Command) setState() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cmd.ProcessState == nil {
		c.cmd.ProcessState = c.state
	}
}

// Pid returns the ID of the command's first process, or 0 if the command was not started. After the end the number can
// be that of another process, which [Command.Signal] does not reach.
func (c *Command) Pid() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tree == nil {
		return 0
	}
	return c.tree.PID()
}

func (c *Command) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cmd == nil:
		return c.refused(notMade)
	case c.begun:
		return c.refused("Start was called already; make a new exec.Cmd and a new Command for each start")
	}
	c.begun = true
	return nil
}

func (c *Command) guard(ctx context.Context, s *sentinel) {
	defer close(c.done)
	cause := s.watch(ctx)
	s.conclude(ctx, cause)
	c.result, c.err, c.state = s.result, s.verdict(cause), s.tree.Status().State
	if err := s.close(); err != nil {
		c.err = errors.Join(c.err, err)
	}
	c.err = c.named(c.err)
	c.finishPipes()
}

// finishPipes ends the pipes that no output passes through any more, and those of a command that was not started.
func (c *Command) finishPipes() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.pipes {
		p.finish()
	}
}

const notMade = "it was not made by NewCommand; make it with stall.NewCommand"

// checkPipe returns an error if the command cannot get a pipe for one of its streams.
func (c *Command) checkPipe(name string, isSet func() bool) error {
	switch {
	case c.cmd == nil:
		return c.refused(notMade)
	case c.begun:
		return c.refused("%sPipe was called after Start; call it before Start", name)
	case isSet():
		return c.refused("%sPipe was called, but %s is set already; leave it nil and call %[1]sPipe once", name, name)
	}
	return nil
}

// checkPipes returns an error if the command has a pipe of another Command, which ends with that one.
func (c *Command) checkPipes() error {
	for _, stream := range []struct {
		name  string
		value any
	}{{"Stdin", c.cmd.Stdin}, {"Stdout", c.cmd.Stdout}, {"Stderr", c.cmd.Stderr}} {
		if p := pipeOf(stream.value); p != nil && !slices.Contains(c.pipes, p) {
			return fmt.Errorf("%w command: %s is a pipe of another Command; make an exec.Cmd for each, and copy from one pipe "+
				"to the other", watchdog.ErrInvalid, stream.name)
		}
	}
	return nil
}

func (c *Command) refused(format string, args ...any) error {
	return c.named(fmt.Errorf("%w command: %s", watchdog.ErrInvalid, fmt.Sprintf(format, args...)))
}

// named adds the command's step to an error, if there is one and it is not an exit error itself.
func (c *Command) named(err error) error {
	if err == nil || c.cmd == nil {
		return err
	}
	switch err.(type) { //nolint:errorlint // an exit error with others beside it is named
	case *exec.ExitError, *ExitError:
		return err
	}
	return fmt.Errorf("run step %s: %w", c.cfg.Step, err)
}

// Signal sends a signal to the command's first process alone, as [os.Process.Signal] does. [Config].Forward sends one
// to all processes, and Kill ends them. Once the first process has exited, Signal reaches every process that
// it left behind, and also after Wait has returned those that [Config].KeepBackground kept.
//
// No number is signalled that is another process's by now. The error is [os.ErrProcessDone] if there is nothing to
// signal, and wraps [watchdog.ErrInvalid] before Start has returned, and for what is no signal. Signal 0 only asks
// whether there is something to signal. A command that ends by a signal of this method has exited by itself, as far as
// the [Result] is concerned.
//
// What was kept is reached on Linux only. On Windows a signal is for all processes: SIGKILL ends them, SIGINT and
// SIGTERM are a console break.
func (c *Command) Signal(sig os.Signal) error {
	tree, err := c.started("Signal")
	if err != nil {
		return err
	}
	number, ok := sig.(syscall.Signal)
	if !ok || number != 0 && !signame.Exists(number) {
		return c.refused("Signal was called with %v, which is no signal of this system", sig)
	}
	err = tree.SignalFirst(number)
	if errors.Is(err, proctree.ErrEnded) {
		_, err = tree.Signal(number)
	}
	return c.doneOr(err)
}

// Kill ends all processes of the command with SIGKILL, at once and whatever its [Config].Grace. It does not wait for
// their end, Wait does. Wait then returns what it does for a command that a signal ended, and not that it was stuck;
// the [Result] is not Finished, and [Config].AlsoEnd is executed.
//
// After Wait has returned, Kill ends what [Config].KeepBackground kept, and waits for that, at most five seconds. That
// is so on Linux only. The errors are those of [Command.Signal].
func (c *Command) Kill() error {
	tree, err := c.started("Kill")
	if err != nil {
		return err
	}
	if !isClosed(tree.Gone()) {
		c.killed.Store(true)
	} else if _, err := tree.Processes(); err != nil {
		return c.doneOr(err)
	}
	return c.doneOr(tree.Kill())
}

// Processes returns the IDs of the command's processes that are alive, in no order; also those that
// [Config].KeepBackground kept, after Wait has returned. A process may have ended by the time that the caller sees its
// number, and the number may be another's: it is for people. The errors are those of [Command.Signal].
//
// On Unix systems other than Linux it has the first process only.
func (c *Command) Processes() ([]int, error) {
	tree, err := c.started("Processes")
	if err != nil {
		return nil, err
	}
	alive, err := tree.Processes()
	return alive, c.doneOr(err)
}

// started returns the tree of a command that was started, for a method.
func (c *Command) started(method string) (*proctree.Tree, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.cmd == nil:
		return nil, c.refused(notMade)
	case c.tree == nil:
		return nil, c.refused("%s was called, but it is not started; call %[1]s after Start has returned nil", method)
	}
	return c.tree, nil
}

// doneOr returns the error of a command that may have ended, in the word of package os.
func (c *Command) doneOr(err error) error {
	if errors.Is(err, proctree.ErrEnded) {
		return os.ErrProcessDone
	}
	return c.named(err)
}
