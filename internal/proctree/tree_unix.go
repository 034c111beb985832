//go:build unix && (!linux || 386 || arm || mips || mipsle || mips64 || mips64le)

package proctree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
)

// StartContext starts the command in its own process group, unless ctx has ended. The tree reaches only the processes
// of that group.
//
// It wraps [ErrUnsupported] if Attr sets Pgid or Foreground. If the program cannot be started, StartContext returns the
// system's error, as [os.StartProcess] does.
func StartContext(ctx context.Context, c Command) (*Tree, error) {
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the command was not started: %w", context.Cause(ctx))
	}
	attr := syscall.SysProcAttr{}
	if c.Attr != nil {
		attr = *c.Attr
	}
	if attr.Pgid != 0 || attr.Foreground {
		return nil, fmt.Errorf("%w: SysProcAttr.Pgid or Foreground is set; the command has a process group of its own",
			ErrUnsupported)
	}
	attr.Setpgid = !attr.Setsid && !c.SameGroup
	env := append([]string{}, c.Env...) // a nil Env would be the host's
	p, err := os.StartProcess(c.Path, c.Args, &os.ProcAttr{Dir: c.Dir, Env: env, Files: c.Files, Sys: &attr})
	if err != nil {
		return nil, err
	}
	b := &groupBackend{process: p, tree: newTree(p.Pid), target: p.Pid, wake: make(chan struct{}, 1)}
	if attr.Setsid || attr.Setpgid {
		b.target = -p.Pid
	}
	b.tree.backend = b
	go b.watch()
	return b.tree, nil
}

// A groupBackend is the process group of a command. The group ID cannot be reused before the first process is reaped.
type groupBackend struct {
	process *os.Process
	tree    *Tree
	target  int           // the PID to signal; negative if it is the process group
	wake    chan struct{} // asks watch to check at once

	mu                        sync.Mutex // held while signalling and while reaping
	killing, released, reaped bool
}

func (b *groupBackend) watch() {
	if status, seen := waitWithoutReaping(b.process.Pid); seen {
		b.tree.setExited(status)
		await(b.wake, func() bool { return b.target > 0 || !b.checkGroup() })
		b.reap()
		b.tree.finish(nil)
		return
	}
	await(nil, b.reapIfExited)
	b.tree.finish(nil)
}

// checkGroup reports whether to keep waiting for the group. After a kill it kills the group again.
func (b *groupBackend) checkGroup() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.killing {
		_ = syscall.Kill(b.target, syscall.SIGKILL)
	}
	return !b.released && groupAlive(-b.target)
}

func (b *groupBackend) reap() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reaped = true
	state, err := b.process.Wait()
	if err != nil {
		return
	}
	b.tree.mu.Lock()
	defer b.tree.mu.Unlock()
	b.tree.status = statusOf(state.Pid(), state.Sys().(syscall.WaitStatus), state.SysUsage().(*syscall.Rusage))
	b.tree.status.State = state
}

// reapIfExited reaps the process if it has exited. It holds the lock, so that no signal goes to a reused group ID.
func (b *groupBackend) reapIfExited() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	var status syscall.WaitStatus
	var used syscall.Rusage
	pid, err := syscall.Wait4(b.process.Pid, &status, syscall.WNOHANG, &used)
	if pid == 0 && err == nil || errors.Is(err, syscall.EINTR) {
		return false
	}
	b.reaped = true
	_ = b.process.Release()
	if err == nil {
		b.tree.setExited(statusOf(pid, status, &used))
	}
	return true
}

// signal signals the group and continues stopped processes, but for SIGSTOP. The group counts as one process.
func (b *groupBackend) signal(sig syscall.Signal) (int, error) {
	if err := b.sendTo(b.target, sig); err != nil {
		return 0, err
	}
	if sig != syscall.SIGSTOP {
		_ = b.sendTo(b.target, syscall.SIGCONT)
	}
	return 1, nil
}

func (b *groupBackend) signalFirst(sig syscall.Signal) error { return b.sendTo(b.process.Pid, sig) }

func (b *groupBackend) sendTo(target int, sig syscall.Signal) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.reaped {
		return ErrEnded
	}
	switch err := syscall.Kill(target, sig); {
	case errors.Is(err, syscall.ESRCH):
		return ErrEnded
	case err != nil:
		return fmt.Errorf("signal %d or its process group: %w", b.process.Pid, err)
	}
	return nil
}

// processes returns the first process: nothing lists a group in the same way everywhere.
func (b *groupBackend) processes() ([]int, error) {
	if err := b.signalFirst(0); err != nil {
		return nil, err
	}
	if isClosed(b.tree.exited) {
		return nil, nil
	}
	return []int{b.process.Pid}, nil
}

func (b *groupBackend) kill() error {
	_, err := b.signal(syscall.SIGKILL)
	b.mu.Lock()
	b.killing = true
	b.mu.Unlock()
	wakeUp(b.wake)
	if errors.Is(err, ErrEnded) {
		return nil
	}
	return err
}

func (b *groupBackend) release() error {
	b.mu.Lock()
	b.released = true
	b.mu.Unlock()
	wakeUp(b.wake)
	return nil
}

func (b *groupBackend) survivors() (alive []int, known bool) { return nil, false }
