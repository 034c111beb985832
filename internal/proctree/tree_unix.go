//go:build unix && (!linux || 386 || arm || mips || mipsle || mips64 || mips64le)

package proctree

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// Start starts the command in a process group of its own, which is all that is known of its tree. Attributes that the group needs for itself are an error that
// wraps [ErrUnsupported]: Pgid and Foreground. A program that cannot be started is an error of the system, as from [os.StartProcess].
func Start(c Command) (*Tree, error) {
	attr := syscall.SysProcAttr{}
	if c.Attr != nil {
		attr = *c.Attr
	}
	if attr.Pgid != 0 || attr.Foreground {
		return nil, fmt.Errorf("%w: SysProcAttr.Pgid or Foreground is set; the command has a process group of its own", ErrUnsupported)
	}
	attr.Setpgid = !attr.Setsid && !c.SameGroup
	env := append([]string{}, c.Env...) // nil would be the host's
	p, err := os.StartProcess(c.Path, c.Args, &os.ProcAttr{Dir: c.Dir, Env: env, Files: c.Files, Sys: &attr})
	if err != nil {
		return nil, err
	}
	l := &groupLink{process: p, tree: newTree(p.Pid), target: p.Pid, done: make(chan struct{}, 1)}
	if attr.Setsid || attr.Setpgid {
		l.target = -p.Pid
	}
	l.tree.link = l
	go l.watch()
	return l.tree, nil
}

// How often it is looked whether something has ended.
const (
	shortestPause = time.Millisecond
	longestPause  = 20 * time.Millisecond
)

// A groupLink is the process group of a command, which is the command's as long as its first process was not waited for.
type groupLink struct {
	process *os.Process
	tree    *Tree
	target  int           // of signals: the group, or the process alone where it is in the host's
	done    chan struct{} // holds something when it is to be looked at again

	mu                        sync.Mutex // held to signal and to wait for the process
	killing, released, reaped bool
}

// watch sees to the end of the process and of its group.
func (l *groupLink) watch() {
	if status, seen := awaitEnd(l.process.Pid); seen {
		l.tree.ended(status)
		l.outlast()
		l.reap()
		l.tree.finish(nil)
		return
	}
	for pause := shortestPause; !l.reapIfEnded(); pause = min(2*pause, longestPause) {
		time.Sleep(pause)
	}
	l.tree.finish(nil)
}

// outlast waits until the others of the group are gone, or let go.
func (l *groupLink) outlast() {
	for pause := shortestPause; l.target < 0 && l.keeps(); pause = min(2*pause, longestPause) {
		select {
		case <-l.done:
		case <-time.After(pause):
		}
	}
}

// keeps reports that the group is still to be watched, and kills what is in it where that was asked for.
func (l *groupLink) keeps() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.killing {
		_ = syscall.Kill(l.target, syscall.SIGKILL)
	}
	return !l.released && peopled(-l.target)
}

// reap waits for the process, which has ended, and adds what it used to its status.
func (l *groupLink) reap() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reaped = true
	state, err := l.process.Wait()
	if err != nil {
		return
	}
	l.tree.mu.Lock()
	defer l.tree.mu.Unlock()
	l.tree.status = statusOf(state)
}

// reapIfEnded waits for the process if it has ended, and for nothing otherwise: with the lock held, so that the group is not signalled afterwards.
func (l *groupLink) reapIfEnded() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var status syscall.WaitStatus
	var used syscall.Rusage
	pid, err := syscall.Wait4(l.process.Pid, &status, syscall.WNOHANG, &used)
	if pid == 0 && err == nil || errors.Is(err, syscall.EINTR) {
		return false
	}
	l.reaped = true
	_ = l.process.Release()
	if err == nil {
		l.tree.ended(statusFrom(status, &used))
	}
	return true
}

// signal signals the group, which counts as one, and continues what is stopped in it.
func (l *groupLink) signal(sig syscall.Signal) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reaped {
		return 0, ErrEnded
	}
	if err := syscall.Kill(l.target, sig); errors.Is(err, syscall.ESRCH) {
		return 0, ErrEnded
	} else if err != nil {
		return 0, fmt.Errorf("signal the process group %d: %w", l.process.Pid, err)
	}
	_ = syscall.Kill(l.target, syscall.SIGCONT)
	return 1, nil
}

func (l *groupLink) kill() error {
	_, err := l.signal(syscall.SIGKILL)
	l.mu.Lock()
	l.killing = true
	l.mu.Unlock()
	l.lookAgain()
	if errors.Is(err, ErrEnded) {
		return nil
	}
	return err
}

func (l *groupLink) release() error {
	select {
	case <-l.tree.exited:
	default:
		return nil
	}
	l.mu.Lock()
	l.released = true
	l.mu.Unlock()
	l.lookAgain()
	return nil
}

func (l *groupLink) survivors() []int { return nil }

func (l *groupLink) lookAgain() {
	select {
	case l.done <- struct{}{}:
	default:
	}
}

func statusOf(state *os.ProcessState) Status {
	status, _ := state.Sys().(syscall.WaitStatus)
	used, _ := state.SysUsage().(*syscall.Rusage)
	return statusFrom(status, used)
}

func statusFrom(status syscall.WaitStatus, used *syscall.Rusage) Status {
	s := Status{ExitCode: status.ExitStatus()}
	if status.Signaled() {
		s.Signal = status.Signal()
	}
	if used != nil {
		s.User, s.System = time.Duration(used.Utime.Nano()), time.Duration(used.Stime.Nano())
		s.MaxRSS = wide(used.Maxrss) * maxRSSUnit
	}
	return s
}

// wide takes a number of the size that the system gives it.
func wide[N int32 | int64](n N) int64 { return int64(n) }
