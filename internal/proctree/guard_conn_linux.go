//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// A guardConn is the host's connection to the guard for one tree.
type guardConn struct {
	guard   *guardClient
	socket  *os.File
	raw     syscall.RawConn
	mark    mark
	leader  int         // the PID of the first process
	answers chan report // to orders
	listed  []int       // what the guard has listed of its next answer; of the goroutine that reads

	signalMu    sync.Mutex  // held by the caller that waits for an answer
	guardSilent atomic.Bool // the guard did not answer in time

	mu           sync.Mutex
	started      bool // the guard has answered the request
	survivorPIDs []int
}

func newGuardConn(g *guardClient, fd int, m mark) *guardConn {
	_ = syscall.SetNonblock(fd, true)
	socket := os.NewFile(uintptr(fd), "tree")
	raw, _ := socket.SyscallConn() // fails only if the file is closed
	return &guardConn{guard: g, socket: socket, raw: raw, mark: m, answers: make(chan report, 1)}
}

// sendLong sends a request that is too long for one message, in parts.
func (c *guardConn) sendLong(ctx context.Context, text []byte) error {
	defer context.AfterFunc(ctx, func() { _ = c.socket.SetWriteDeadline(longAgo) })()
	for part := range slices.Chunk(text, maxMessage/2) {
		if _, err := c.socket.Write(part); err != nil {
			return fmt.Errorf("%w: send a long request: %w", ErrGuard, cmp.Or(context.Cause(ctx), err))
		}
	}
	return nil
}

var longAgo = time.Unix(1, 0)

// stoppedAfter is how long the guard may take to answer before the host looks whether it was stopped.
const stoppedAfter = 500 * time.Millisecond

// errStopped says that the guard was stopped before it answered.
const errStopped = guardError("it was stopped by a signal or a debugger and does not answer; continue or kill it")

// waitStarted waits for the guard's answer to a request. The guard does not start a command after its socket was
// closed.
func (c *guardConn) waitStarted(ctx context.Context, req *request) (*Tree, error) {
	r, err := c.readAnswer(ctx)
	if err == nil && r.Started > 0 {
		t := newTree(r.Started)
		t.backend, c.leader = c, r.Started
		go c.readReports(t)
		return t, nil
	}
	_ = c.socket.Close()
	switch {
	case err != nil && isGone(err):
		return nil, c.lost()
	case err != nil:
		// The guard may have started the command, or be about to: then it has the mark itself, and its other commands
		// would die with it.
		killMarked(c.mark, c.guard.process.Pid)
		return nil, fmt.Errorf("wait for the guard process to start the command: %w", err)
	case r.Unfit:
		return nil, &unfitError{guardError(r.Error)}
	case r.Errno != 0:
		return nil, &os.PathError{Op: "fork/exec", Path: req.Path, Err: r.Errno}
	default:
		return nil, fmt.Errorf("%w: %s", ErrGuard, r.Error)
	}
}

func (c *guardConn) lost() error {
	if c.guard.gone() {
		killMarked(c.mark, 0)
		c.guard.pool.retire(c.guard)
		return fmt.Errorf("%w: it died before it told that the command had started", ErrGuard)
	}
	return &unfitError{guardError(errTooManyFiles.Error())}
}

// answerGrace is how long a guard that runs may still answer after the context of the start has ended. It may have
// started the command already, and then the caller can end it in order.
const answerGrace = time.Second

// readAnswer reads the first report. It waits until ctx ends or the guard is found to be stopped.
func (c *guardConn) readAnswer(ctx context.Context) (report, error) {
	stop := context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.started {
			_ = c.socket.SetReadDeadline(longAgo)
		}
	})
	defer stop()
	var ended time.Time // when ctx had ended, zero before
	for {
		_ = c.socket.SetReadDeadline(time.Now().Add(stoppedAfter))
		if ctx.Err() != nil && ended.IsZero() {
			ended = time.Now()
		}
		r, err := c.read()
		switch {
		case err == nil:
			c.mu.Lock()
			c.started = true // so that the next reads wait for ever, also if ctx ends now
			_ = c.socket.SetReadDeadline(time.Time{})
			c.mu.Unlock()
			return r, nil
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return r, err
		}
		if err := c.givesUp(ctx, ended); err != nil {
			return r, err
		}
	}
}

// givesUp returns why to wait no longer for an answer, nil if there is no reason.
func (c *guardConn) givesUp(ctx context.Context, ended time.Time) error {
	switch stopped := c.guard.stopped(); {
	case ctx.Err() == nil && stopped:
		return errStopped
	case ctx.Err() == nil || !stopped && (ended.IsZero() || time.Since(ended) < answerGrace):
		return nil
	default:
		return context.Cause(ctx)
	}
}

// readReports handles the guard's reports until the tree is gone.
func (c *guardConn) readReports(t *Tree) {
	defer c.guard.pool.release(c.guard)
	defer c.socket.Close() //nolint:errcheck // no data is left to send
	for {
		r, err := c.read()
		if err != nil {
			c.guardDied(t, err)
			return
		}
		c.handleReport(t, r)
		if r.Gone {
			if r.Released {
				t.rest = &rest{mark: c.mark, unmarked: r.Kept}
			}
			close(c.answers)
			t.finish(nil)
			return
		}
	}
}

func (c *guardConn) handleReport(t *Tree, r report) {
	switch {
	case len(r.Listed) > 0:
		c.listed = append(c.listed, r.Listed...)
	case r.Answer:
		r.Listed, c.listed = c.listed, nil
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
		t.setExited(statusOf(t.pid, r.Exited.Status, &r.Exited.Used))
	}
}

// guardDied kills what it can find of a tree whose guard died. The leader died with the guard.
func (c *guardConn) guardDied(t *Tree, err error) {
	close(c.answers)
	err = fmt.Errorf("%w: it died while %d was running: %w", ErrGuard, t.pid, err)
	killMarked(c.mark, 0)
	c.guard.pool.retire(c.guard)
	t.finish(err)
}

func (c *guardConn) read() (r report, err error) {
	var failed error
	err = c.raw.Read(func(fd uintptr) bool {
		text := messages.Get().(*[maxMessage]byte) // not while the connection waits: there can be many
		defer messages.Put(text)
		length, err := readMessage(int(fd), text[:])
		switch {
		case errors.Is(err, syscall.EAGAIN):
			return false
		case err != nil:
			failed = err
		case length == 0:
			failed = errPeerClosed
		default:
			failed = json.Unmarshal(text[:length], &r)
		}
		return true
	})
	return r, errors.Join(err, failed)
}

// readMessage reads the next message of a socket that does not block, or returns 0 after the last.
//
// It reads again after ECONNRESET: if the guard closes its side with an order unread, the first read fails once, and
// the messages that the guard sent before follow. It also reads again at the end: a read of Linux that found no message
// looks after that whether the other side is closed, and tells of the end though a message came in between.
func readMessage(fd int, text []byte) (length int, err error) {
	for ends := 0; ends < 2 && (length == 0 || err != nil); {
		switch length, err = syscall.Read(fd, text); {
		case err == nil:
			ends++
		case !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EINTR):
			return length, err
		}
	}
	return length, err
}

// messages saves the cost of clearing 64 KiB for each report.
var messages = sync.Pool{New: func() any { return new([maxMessage]byte) }}

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

// ask has the guard carry out an order, and returns its answer. If the guard is silent, the host does what it can.
func (c *guardConn) ask(o order) (report, error) {
	c.signalMu.Lock()
	defer c.signalMu.Unlock()
	if c.guardSilent.Load() {
		return c.obeyAlone(o), nil
	}
	if err := c.sendOrder(o); err != nil {
		return report{}, err
	}
	ticker := time.NewTicker(answerTimeout)
	defer ticker.Stop()
	until := time.Now().Add(answerBound)
	for {
		select {
		case r, ok := <-c.answers:
			if !ok {
				return report{}, ErrEnded
			}
			return r, nil
		case now := <-ticker.C:
			var r report
			if o.Signal == syscall.SIGKILL {
				r = c.obeyAlone(o)
			}
			if r.Reached+r.Missed == 0 && now.Before(until) && !c.guard.stopped() {
				continue // after a SIGKILL too: the guard may have ended them, and answer late
			}
			c.guardSilent.Store(true)
			_ = c.sendOrder(order{Withdraw: true}) // or the guard would signal them again when it goes on
			if o.Signal != syscall.SIGKILL {
				r = c.obeyAlone(o)
			}
			return r, nil
		}
	}
}

// obeyAlone does without the guard what an order says, to the processes that the host can find.
func (c *guardConn) obeyAlone(o order) report {
	var found told
	if !o.First {
		found = tell(o.Signal, c.marked().walk)
	} else if m, err := openMember(c.leader, func(p process) bool { return c.mark.covers(markOf(p.pid)) }); err == nil {
		found.count(m.signal(o.Signal))
		m.close()
	}
	return report{Reached: found.reached, Missed: found.missed(), Listed: found.alive()}
}

// marked is what the host finds of the tree without the guard.
func (c *guardConn) marked() *rest { return &rest{mark: c.mark} }

func (c *guardConn) signal(sig syscall.Signal) (int, error) {
	r, err := c.ask(order{Signal: sig})
	if err != nil {
		return 0, err
	}
	return result(r.Reached, r.Missed)
}

func (c *guardConn) signalFirst(sig syscall.Signal) error {
	r, err := c.ask(order{Signal: sig, First: true})
	if err == nil {
		_, err = result(r.Reached, r.Missed)
	}
	return err
}

func (c *guardConn) processes() ([]int, error) {
	r, err := c.ask(order{List: true})
	return r.Listed, err
}

func (c *guardConn) kill() error {
	err := c.sendOrder(order{Kill: true})
	if c.isSilent() {
		_, _ = c.marked().signal(syscall.SIGKILL)
	}
	return err
}

func (c *guardConn) release() error { return c.sendOrder(order{Release: true}) }

// isSilent reports whether the host has to do itself what the guard would.
func (c *guardConn) isSilent() bool { return c.guardSilent.Load() || c.guard.stopped() }

func (c *guardConn) survivors() (alive []int, known bool) {
	if c.isSilent() {
		alive, dying := aliveIn(c.marked().walk)
		// That none is left a guard that is merely slow tells itself.
		return alive, !dying && (len(alive) > 0 || c.guard.stopped())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.survivorPIDs, len(c.survivorPIDs) > 0
}
