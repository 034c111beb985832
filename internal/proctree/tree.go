package proctree

import (
	"context"
	"sync"
	"syscall"
	"time"
)

// Start is [StartContext] with a context that never ends.
func Start(c Command) (*Tree, error) { return StartContext(context.Background(), c) }

// A Tree is a started command and all its descendants. All methods are safe for concurrent use.
type Tree struct {
	pid     int
	exited  chan struct{}
	gone    chan struct{}
	backend backend

	mu     sync.Mutex
	status Status
	err    error
}

const (
	// survivorsAfter is how long a kill may take before what it cannot end counts as a survivor.
	survivorsAfter = 500 * time.Millisecond
	// dyingBound is how long a kill may take before what it can end, and has not, does too: the threads of a dying
	// process need a processor, and a busy machine may have none to give for seconds.
	dyingBound = 10 * time.Second
)

// A backend reaches the processes of a tree on one operating system.
type backend interface {
	signal(sig syscall.Signal) (int, error)
	kill() error
	release() error
	survivors() (alive []int, known bool)
}

func newTree(pid int) *Tree {
	return &Tree{pid: pid, exited: make(chan struct{}), gone: make(chan struct{}), status: unknown}
}

// PID returns the PID of the first process. After Exited is closed, the PID can belong to another process.
func (t *Tree) PID() int { return t.pid }

// Exited is closed when the first process has exited. Its descendants can still be alive.
func (t *Tree) Exited() <-chan struct{} { return t.exited }

// Gone is closed when nothing of the tree is alive any more, or when the tree was released or lost; [Tree.Err] says if
// it was lost. It is never closed before Exited.
func (t *Tree) Gone() <-chan struct{} { return t.gone }

// Status returns how the first process ended. Before that, its ExitCode is -1.
func (t *Tree) Status() Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.status
}

// Err returns why the tree was lost, nil if it was not. On Linux it wraps [ErrGuard].
func (t *Tree) Err() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.err
}

// Signal sends the signal once to every living process of the tree and continues those that are stopped, but for
// SIGSTOP. It returns how many it reached. If it could not reach all, the error is a [*MissedError]; if there were
// none, it is [ErrEnded].
func (t *Tree) Signal(sig syscall.Signal) (int, error) {
	select {
	case <-t.gone:
		return 0, ErrEnded
	default:
		return t.backend.signal(sig)
	}
}

// Kill sends SIGKILL to everything until nothing is left. It does not wait for that: see [Tree.Gone].
func (t *Tree) Kill() error {
	select {
	case <-t.gone:
		return nil
	default:
		return t.backend.kill()
	}
}

// Release gives up what is left of the tree after the first process has exited, so that it can live on. Before that, it
// does nothing.
func (t *Tree) Release() error {
	select {
	case <-t.gone:
		return nil
	default:
		return t.backend.release()
	}
}

// Survivors returns the PIDs of the processes that a kill did not end within half a second, because it cannot: another
// user owns them, or they wait for a disk. What dies slowly, on a busy machine, is given ten seconds. It reports false
// if it is not known yet what survives, and none if the tree is gone.
func (t *Tree) Survivors() (alive []int, known bool) {
	select {
	case <-t.gone:
		return nil, true
	default:
		return t.backend.survivors()
	}
}

// setExited records how the first process ended.
func (t *Tree) setExited(s Status) {
	t.mu.Lock()
	t.status = s
	t.mu.Unlock()
	close(t.exited)
}

// finish records that nothing is left, or, with an error, that the tree was lost.
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
