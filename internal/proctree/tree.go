package proctree

import (
	"sync"
	"syscall"
)

// A Tree is a command that was started and everything that descends from it. All methods are safe for concurrent use.
type Tree struct {
	pid    int
	exited chan struct{}
	gone   chan struct{}
	link   link

	mu     sync.Mutex
	status Status
	err    error
}

// A link is what a system has to reach the processes of a tree.
type link interface {
	signal(sig syscall.Signal) (int, error)
	kill() error
	release() error
	survivors() []int
}

func newTree(pid int) *Tree {
	return &Tree{pid: pid, exited: make(chan struct{}), gone: make(chan struct{}), status: unknown}
}

// PID returns the number of the first process. It may be somebody else's once the process has exited.
func (t *Tree) PID() int { return t.pid }

// Exited is closed when the first process has ended. Others may be alive.
func (t *Tree) Exited() <-chan struct{} { return t.exited }

// Gone is closed when nothing of the tree is alive any more, after Exited; or when it was released; or, with an [Tree.Err], when it was
// lost.
func (t *Tree) Gone() <-chan struct{} { return t.gone }

// Status returns how the first process ended; before that its ExitCode is -1.
func (t *Tree) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// Err returns what went wrong with the watching, nil for nothing: an error that wraps [ErrGuard].
func (t *Tree) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Signal sends the signal to every living process of the tree, once each, and continues those that are stopped. It returns how many it
// reached, and [ErrEnded] where there was none.
func (t *Tree) Signal(sig syscall.Signal) (int, error) {
	select {
	case <-t.gone:
		return 0, ErrEnded
	default:
		return t.link.signal(sig)
	}
}

// Kill ends everything with SIGKILL, again and again until nothing is left; it does not wait: see [Tree.Gone].
func (t *Tree) Kill() error {
	select {
	case <-t.gone:
		return nil
	default:
		return t.link.kill()
	}
}

// Release lets go of what is left after the first process has exited, so that it may live on. Before that it does nothing.
func (t *Tree) Release() error {
	select {
	case <-t.gone:
		return nil
	default:
		return t.link.release()
	}
}

// Survivors returns the numbers of processes that were seen alive after a kill that should have ended them: those that a signal cannot end, such as
// one of another user or one that waits for a disk. It is empty for a tree that is gone.
func (t *Tree) Survivors() []int {
	select {
	case <-t.gone:
		return nil
	default:
		return t.link.survivors()
	}
}

// ended notes how the first process ended.
func (t *Tree) ended(s Status) {
	t.mu.Lock()
	t.status = s
	t.mu.Unlock()
	close(t.exited)
}

// finish notes that nothing is left, or nothing that is known.
func (t *Tree) finish(err error) {
	t.mu.Lock()
	t.err = err
	t.mu.Unlock()
	select {
	case <-t.exited:
	default:
		close(t.exited)
	}
	close(t.gone)
}
