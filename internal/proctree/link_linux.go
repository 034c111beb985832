//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A hostLink is the host's side of a tree's socket.
type hostLink struct {
	socket  *os.File
	raw     syscall.RawConn
	answers chan int

	asking sync.Mutex  // held by the one who waits for an answer
	silent atomic.Bool // the guard did not answer in time

	mu       sync.Mutex
	mark     mark
	tree     *Tree
	resisted []int
}

func newHostLink(fd int) *hostLink {
	_ = syscall.SetNonblock(fd, true)
	socket := os.NewFile(uintptr(fd), "tree")
	raw, _ := socket.SyscallConn() // it fails on a closed file only
	return &hostLink{socket: socket, raw: raw, answers: make(chan int, 1)}
}

// started waits for the guard's answer to a request.
func (l *hostLink) started(path string, m mark) (*Tree, error) {
	n, err := l.read()
	if err == nil && n.Started > 0 {
		t := newTree(n.Started)
		t.link, l.tree, l.mark = l, t, m
		go l.follow(t)
		return t, nil
	}
	_ = l.socket.Close()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: it died before it could start %s: %w", ErrGuard, path, err)
	case n.Failed != 0:
		return nil, &os.PathError{Op: "fork/exec", Path: path, Err: n.Failed}
	default:
		return nil, fmt.Errorf("%w: start %s: %s", ErrGuard, path, n.Problem)
	}
}

// follow takes the news of the tree until it is gone.
func (l *hostLink) follow(t *Tree) {
	defer l.socket.Close() //nolint:errcheck // nothing is left to say
	for {
		n, err := l.read()
		if err != nil {
			l.lost(t, err)
			return
		}
		switch {
		case n.Answer:
			select {
			case l.answers <- n.Reached:
			default: // nobody waits for it any more
			}
		case len(n.Survivors) > 0:
			l.mu.Lock()
			l.resisted = n.Survivors
			l.mu.Unlock()
		}
		if n.Exited != nil {
			t.ended(n.Exited.status())
		}
		if n.Gone {
			close(l.answers)
			t.finish(nil)
			return
		}
	}
}

// lost ends what can be found of a tree whose guard died. The leader died with it.
func (l *hostLink) lost(t *Tree, err error) {
	close(l.answers)
	err = fmt.Errorf("%w: it died while %d was running: %w", ErrGuard, t.pid, err)
	until := time.Now().Add(lasting)
	for alive := true; alive && time.Now().Before(until); time.Sleep(time.Millisecond) {
		alive = false
		everywhere(l.mark, func(m member) {
			_, _ = m.signal(syscall.SIGKILL)
			alive = true
		})
	}
	t.finish(err)
}

// read returns the next news. A guard that closed its side before it took an order resets the connection, which is told once and before the news that it had
// sent: they are still to come.
func (l *hostLink) read() (n news, err error) {
	text := make([]byte, maxMessage)
	length := 0
	var failed error
	err = l.raw.Read(func(fd uintptr) bool {
		length, failed = syscall.Read(int(fd), text)
		for errors.Is(failed, syscall.ECONNRESET) || errors.Is(failed, syscall.EINTR) {
			length, failed = syscall.Read(int(fd), text)
		}
		return !errors.Is(failed, syscall.EAGAIN)
	})
	if err = errors.Join(err, failed); err != nil {
		return news{}, err
	}
	if length == 0 {
		return news{}, errHostGone
	}
	return n, json.Unmarshal(text[:length], &n)
}

func (l *hostLink) tell(o order) error {
	text, _ := json.Marshal(o) // numbers and booleans: it cannot fail
	if _, err := l.socket.Write(text); err != nil {
		if errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
			return nil // the tree is gone, which is told to whoever waits for it
		}
		return fmt.Errorf("%w: %w", ErrGuard, err)
	}
	return nil
}

// answering is how long the guard has to answer: it works through a thousand processes in less.
const answering = 400 * time.Millisecond

func (l *hostLink) signal(sig syscall.Signal) (int, error) {
	l.asking.Lock()
	defer l.asking.Unlock()
	if l.silent.Load() {
		return l.signalMarked(sig)
	}
	if err := l.tell(order{Signal: sig}); err != nil {
		return 0, err
	}
	timer := time.NewTimer(answering)
	defer timer.Stop()
	select {
	case reached, ok := <-l.answers:
		if !ok || reached == 0 {
			return 0, ErrEnded
		}
		return reached, nil
	case <-timer.C: // the guard was stopped, or the machine is
		l.silent.Store(true)
		return l.signalMarked(sig)
	}
}

// signalMarked signals what can be found without the guard.
func (l *hostLink) signalMarked(sig syscall.Signal) (reached int, err error) {
	everywhere(l.mark, func(m member) {
		if ok, _ := m.signal(sig); ok {
			reached++
		}
		if m.stopped() && sig != 0 {
			_, _ = m.signal(syscall.SIGCONT)
		}
	})
	if reached == 0 {
		return 0, ErrEnded
	}
	return reached, nil
}

func (l *hostLink) kill() error {
	err := l.tell(order{Kill: true})
	if l.silent.Load() {
		_, _ = l.signalMarked(syscall.SIGKILL)
	}
	return err
}

func (l *hostLink) release() error { return l.tell(order{Release: true}) }

func (l *hostLink) survivors() []int {
	if l.silent.Load() {
		var alive []int
		everywhere(l.mark, func(m member) { alive = append(alive, m.pid) })
		return alive
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.resisted
}
