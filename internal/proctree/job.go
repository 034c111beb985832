package proctree

import (
	"fmt"
	"sync"
	"syscall"
	"time"
)

// A job is a Windows job object: a process in it and all that descends from it. This file has no build tag, so that
// what is decided about a job is tested on any system.
type job interface {
	// active returns how many of its processes are alive, and processes returns their PIDs.
	active() (int, error)
	processes() ([]int, error)
	// interrupt sends a console break to the first process's group.
	interrupt() error
	terminate() error
	// keep lets the processes outlive the job.
	keep() error
	close()
}

// killedStatus is the exit status of processes that a job's end killed. The bits of an error and of an application's
// own code are set: no program of Windows exits with it.
const killedStatus = 0xE0000009

// A jobBackend is a tree that is a job.
type jobBackend struct {
	tree     *Tree
	job      job
	ownGroup bool          // the first process leads a console process group
	wake     chan struct{} // asks watch to look at once

	mu                        sync.Mutex // held while the job is used
	killing, released, closed bool
	killedAt                  time.Time
}

func newJobBackend(pid int, j job, ownGroup bool) *jobBackend {
	b := &jobBackend{tree: newTree(pid), job: j, ownGroup: ownGroup, wake: make(chan struct{}, 1)}
	b.tree.backend = b
	return b
}

// watch waits until the first process has exited and the job is empty or released.
//
// Rejected: the job's messages on a completion port. Windows does not guarantee that they arrive.
func (b *jobBackend) watch(wait func() (Status, error)) {
	status, err := wait()
	if err != nil {
		b.lose(fmt.Errorf("wait for process %d: %w", b.tree.pid, err))
		return
	}
	if uint32(status.ExitCode) == killedStatus { //nolint:gosec // an exit code of Windows has 32 bits
		status.ExitCode, status.Signal = -1, syscall.SIGKILL
	}
	b.tree.setExited(status)
	await(b.wake, func() bool {
		var left int
		left, err = b.check()
		return err != nil || left == 0
	})
	if err != nil {
		b.lose(err)
		return
	}
	b.close()
	b.tree.finish(nil)
}

// lose ends a tree whose state is unknown.
func (b *jobBackend) lose(err error) {
	b.mu.Lock()
	_ = b.job.terminate()
	b.mu.Unlock()
	b.close()
	b.tree.finish(err)
}

func (b *jobBackend) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.job.close()
}

// check returns how many processes to wait for. After a kill it kills again.
func (b *jobBackend) check() (left int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.released {
		return 0, nil
	}
	left, err = b.job.active()
	if err != nil {
		return 0, fmt.Errorf("count the processes of the job of %d: %w", b.tree.pid, err)
	}
	if b.killing {
		_ = b.job.terminate()
	}
	return left, nil
}

// signal counts, breaks or ends: Windows has no signals, and a console break is all that a program can be asked to end
// by. It goes to a console process group, which is surely the tree's only while its first process runs, and counts as
// one process, as a process group does on Unix.
func (b *jobBackend) signal(sig syscall.Signal) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return 0, ErrEnded
	}
	alive, err := b.job.active()
	switch {
	case err != nil:
		return 0, fmt.Errorf("count the processes of the job of %d: %w", b.tree.pid, err)
	case alive == 0:
		return 0, ErrEnded
	}
	switch asked := sig == syscall.SIGINT || sig == syscall.SIGTERM; {
	case sig == 0:
		return alive, nil
	case sig == syscall.SIGKILL:
		return alive, b.terminateLocked()
	case asked && b.ownGroup && !isClosed(b.tree.exited) && b.job.interrupt() == nil: // or the host has no console
		return 1, nil
	default:
		return 0, &MissedError{Processes: alive}
	}
}

// signalFirst signals all: Windows has nothing for one process but to end it.
func (b *jobBackend) signalFirst(sig syscall.Signal) error {
	_, err := b.signal(sig)
	return err
}

func (b *jobBackend) processes() ([]int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, ErrEnded
	}
	return b.job.processes()
}

func (b *jobBackend) terminateLocked() error {
	if err := b.job.terminate(); err != nil {
		return fmt.Errorf("end the job of process %d: %w", b.tree.pid, err)
	}
	return nil
}

func (b *jobBackend) kill() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	if !b.killing {
		b.killing, b.killedAt = true, time.Now()
	}
	wakeUp(b.wake)
	return b.terminateLocked()
}

// await waits until it is done. It looks at first often, and at once when it is woken up.
func await(wake <-chan struct{}, done func() bool) {
	const shortest, longest = time.Millisecond, 20 * time.Millisecond
	for pause := shortest; !done(); pause = min(2*pause, longest) {
		select {
		case <-wake:
		case <-time.After(pause):
		}
	}
}

// wakeUp has await look at once. The capacity of the channel is 1.
func wakeUp(wake chan<- struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

func (b *jobBackend) release() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
	if err := b.job.keep(); err != nil {
		return fmt.Errorf("release the job of process %d: %w", b.tree.pid, err)
	}
	b.released = true
	wakeUp(b.wake)
	return nil
}

func (b *jobBackend) survivors() (alive []int, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || !b.killing || time.Since(b.killedAt) < survivorsAfter {
		return nil, false
	}
	alive, _ = b.job.processes()
	return alive, len(alive) > 0
}
