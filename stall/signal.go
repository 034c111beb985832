package stall

import (
	"errors"
	"os"
	"syscall"

	"github.com/seed62658d38/watchdog/internal/proctree"
	"github.com/seed62658d38/watchdog/internal/signame"
)

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
	if !gone(tree) {
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
