package proctree

import (
	"context"
	"errors"
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
	// rest reaches what was released. It is nil if nothing was, or nothing can. It is set before gone is closed.
	rest reacher

	orders    sync.Mutex // held while a kill or a release is ordered
	releasing bool

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

// A reacher reaches processes of a tree.
type reacher interface {
	signal(sig syscall.Signal) (int, error)
	processes() ([]int, error)
	kill() error
}

// A backend is what a tree is on one operating system.
type backend interface {
	reacher
	signalFirst(sig syscall.Signal) error
	release() error // after the first process has exited
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
//
// On Linux it also reaches what was released.
func (t *Tree) Signal(sig syscall.Signal) (reached int, err error) {
	err = t.do(func(r reacher) (err error) {
		reached, err = r.signal(sig)
		return err
	})
	return reached, err
}

// SignalFirst sends the signal to the first process alone, and does not continue it. It returns [ErrEnded] if that has
// exited, and a [*MissedError] if it could not be signalled. A tree on Windows has no signal for it alone: there it is
// as Signal.
func (t *Tree) SignalFirst(sig syscall.Signal) error {
	if isClosed(t.exited) {
		return ErrEnded
	}
	return t.backend.signalFirst(sig)
}

// Processes returns the PIDs of the living processes of the tree, also of what was released, as far as Signal reaches
// them. It returns [ErrEnded] if there are none. On Unixes other than Linux it finds only the first process.
func (t *Tree) Processes() (alive []int, err error) {
	err = t.do(func(r reacher) (err error) {
		alive, err = r.processes()
		return err
	})
	return alive, err
}

// do makes a call to what reaches the tree. It makes it again if the tree was released meanwhile.
func (t *Tree) do(call func(reacher) error) error {
	reaches := t.reach()
	if reaches == nil {
		return ErrEnded
	}
	err := call(reaches)
	if now := t.reach(); errors.Is(err, ErrEnded) && now != nil && now != reaches {
		return call(now)
	}
	return err
}

// releaseBound is how long a call waits for a release that is under way, before it tries as if there were none.
const releaseBound = 8 * time.Second

// reach returns what reaches the processes now, nil if nothing does.
func (t *Tree) reach() reacher {
	t.orders.Lock()
	releasing := t.releasing
	t.orders.Unlock()
	if releasing {
		timer := time.NewTimer(releaseBound)
		defer timer.Stop()
		select {
		case <-t.gone:
		case <-timer.C:
		}
	}
	if isClosed(t.gone) {
		return t.rest
	}
	return t.backend
}

// Kill sends SIGKILL to everything until nothing is left. It does not wait for that: see [Tree.Gone]. On Linux it also
// kills what was released, and waits until that has ended, for at most five seconds: it has no other Gone.
func (t *Tree) Kill() error {
	t.orders.Lock()
	if !t.releasing {
		defer t.orders.Unlock()
		if isClosed(t.gone) {
			return nil
		}
		return t.backend.kill()
	}
	t.orders.Unlock()
	if reaches := t.reach(); reaches != nil {
		return reaches.kill()
	}
	return nil
}

// Release gives up what is left of the tree after the first process has exited, so that it can live on. Before that,
// and after a kill, it does nothing.
func (t *Tree) Release() error {
	t.orders.Lock()
	defer t.orders.Unlock()
	if isClosed(t.gone) || !isClosed(t.exited) {
		return nil
	}
	t.releasing = true
	return t.backend.release()
}

// Survivors returns the PIDs of the processes that a kill did not end within half a second, because it cannot: another
// user owns them, or they wait for a disk. What dies slowly, on a busy machine, is given ten seconds. It reports false
// if it is not known yet what survives, and none if the tree is gone.
func (t *Tree) Survivors() (alive []int, known bool) {
	if isClosed(t.gone) {
		return nil, true
	}
	return t.backend.survivors()
}

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
	if !isClosed(t.exited) {
		close(t.exited)
	}
	close(t.gone)
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
