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

// A guardConn is the host's connection to the guard for one tree.
type guardConn struct {
	socket  *os.File
	raw     syscall.RawConn
	guard   int // its PID
	mark    mark
	answers chan report // to signals

	signalMu    sync.Mutex  // held by the caller that waits for an answer
	guardSilent atomic.Bool // the guard did not answer in time

	mu           sync.Mutex
	survivorPIDs []int
}

func newGuardConn(fd, guard int) *guardConn {
	_ = syscall.SetNonblock(fd, true)
	socket := os.NewFile(uintptr(fd), "tree")
	raw, _ := socket.SyscallConn() // fails only if the file is closed
	return &guardConn{socket: socket, raw: raw, guard: guard, answers: make(chan report, 1)}
}

// waitStarted waits for the guard's answer to a request.
func (c *guardConn) waitStarted(path string, m mark) (*Tree, error) {
	r, err := c.read()
	if err == nil && r.Started > 0 {
		t := newTree(r.Started)
		t.backend, c.mark = c, m
		go c.readReports(t)
		return t, nil
	}
	_ = c.socket.Close()
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: it died before it could start %s: %w", ErrGuard, path, err)
	case r.Errno != 0:
		return nil, &os.PathError{Op: "fork/exec", Path: path, Err: r.Errno}
	default:
		return nil, fmt.Errorf("%w: start %s: %s", ErrGuard, path, r.Error)
	}
}

// readReports handles the guard's reports until the tree is gone.
func (c *guardConn) readReports(t *Tree) {
	defer c.socket.Close() //nolint:errcheck // no data is left to send
	for {
		r, err := c.read()
		if err != nil {
			c.guardDied(t, err)
			return
		}
		c.handleReport(t, r)
		if r.Gone {
			close(c.answers)
			t.finish(nil)
			return
		}
	}
}

func (c *guardConn) handleReport(t *Tree, r report) {
	switch {
	case r.Answer:
		select {
		case c.answers <- r:
		default: // the caller of signal has given up
		}
	case len(r.Survivors) > 0:
		c.mu.Lock()
		c.survivorPIDs = r.Survivors
		c.mu.Unlock()
	}
	if r.Exited != nil {
		t.setExited(r.Exited.status())
	}
}

// guardDied kills what it can find of a tree whose guard died. The leader died with the guard.
func (c *guardConn) guardDied(t *Tree, err error) {
	close(c.answers)
	err = fmt.Errorf("%w: it died while %d was running: %w", ErrGuard, t.pid, err)
	until := time.Now().Add(survivorsAfter)
	for alive := true; alive && time.Now().Before(until); time.Sleep(time.Millisecond) {
		alive = false
		visitMarked(c.mark, func(m member) {
			_, _ = m.signal(syscall.SIGKILL)
			alive = true
		})
	}
	t.finish(err)
}

// read returns the next report. It retries after ECONNRESET: if the guard closes its side with an order unread, the
// first read fails once, and the reports that the guard sent before follow.
func (c *guardConn) read() (r report, err error) {
	text := make([]byte, maxMessage)
	length := 0
	var failed error
	err = c.raw.Read(func(fd uintptr) bool {
		length, failed = syscall.Read(int(fd), text)
		for errors.Is(failed, syscall.ECONNRESET) || errors.Is(failed, syscall.EINTR) {
			length, failed = syscall.Read(int(fd), text)
		}
		return !errors.Is(failed, syscall.EAGAIN)
	})
	if err = errors.Join(err, failed); err != nil {
		return report{}, err
	}
	if length == 0 {
		return report{}, errPeerClosed
	}
	return r, json.Unmarshal(text[:length], &r)
}

// sendOrder sends an order to the guard. It returns nil if the connection is closed: readReports handles that.
func (c *guardConn) sendOrder(o order) error {
	text, _ := json.Marshal(o) // numbers and booleans: it cannot fail
	_, err := c.socket.Write(text)
	switch {
	case err == nil, errors.Is(err, os.ErrClosed), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET):
		return nil
	default:
		return fmt.Errorf("%w: %w", ErrGuard, err)
	}
}

const (
	// answerTimeout is how long signal waits for the guard before it looks whether the guard was stopped.
	answerTimeout = 400 * time.Millisecond
	// answerBound is how long it waits for a guard that runs. If the command keeps the machine busy, the guard can take
	// seconds for a thousand processes. A host that signalled them itself would tell them a second time, which only a
	// SIGKILL allows.
	answerBound = 20 * answerTimeout
)

func (c *guardConn) signal(sig syscall.Signal) (int, error) {
	c.signalMu.Lock()
	defer c.signalMu.Unlock()
	if c.guardSilent.Load() {
		return c.signalByMark(sig)
	}
	if err := c.sendOrder(order{Signal: sig}); err != nil {
		return 0, err
	}
	ticker := time.NewTicker(answerTimeout)
	defer ticker.Stop()
	until := time.Now().Add(answerBound)
	for {
		select {
		case r, ok := <-c.answers:
			if !ok {
				return 0, ErrEnded
			}
			return told(r.Reached, r.Missed)
		case now := <-ticker.C:
			if sig != syscall.SIGKILL && now.Before(until) && !c.guardStopped() {
				continue
			}
			c.guardSilent.Store(true)
			_ = c.sendOrder(order{Withdraw: true}) // or the guard would signal them again when it goes on
			return c.signalByMark(sig)
		}
	}
}

func (c *guardConn) guardStopped() bool {
	p, err := readStat(c.guard)
	return err == nil && p.stopped()
}

// told returns what a signal returns.
func told(reached, missed int) (int, error) {
	switch {
	case missed > 0:
		return reached, &MissedError{Processes: missed}
	case reached == 0:
		return 0, ErrEnded
	default:
		return reached, nil
	}
}

// signalByMark signals the processes that the host can find without the guard.
func (c *guardConn) signalByMark(sig syscall.Signal) (int, error) {
	reached, missed := 0, 0
	visitMarked(c.mark, func(m member) {
		switch ok, err := m.signalAndContinue(sig); {
		case ok:
			reached++
		case err != nil:
			missed++
		}
	})
	return told(reached, missed)
}

func (c *guardConn) kill() error {
	err := c.sendOrder(order{Kill: true})
	if c.guardSilent.Load() {
		_, _ = c.signalByMark(syscall.SIGKILL)
	}
	return err
}

func (c *guardConn) release() error { return c.sendOrder(order{Release: true}) }

func (c *guardConn) survivors() []int {
	if c.guardSilent.Load() {
		var alive []int
		visitMarked(c.mark, func(m member) { alive = append(alive, m.pid) })
		return alive
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.survivorPIDs
}
