//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// A guardClient is the host's side of its guard. It starts the guard with the first command.
type guardClient struct {
	mu      sync.Mutex
	process *os.Process // nil if no guard is running
	socket  int
	profile profile // of the thread that started the guard, and so the guard's
	mark    mark    // of the host itself
}

var theGuard guardClient

// startCommand asks the guard to start a command. It starts a new guard if there is none, if the old one was killed, or
// if the profile of the calling thread differs from the guard's.
func (g *guardClient) startCommand(req *request, files []int) (*guardConn, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	runtime.LockOSThread() // a profile belongs to a thread
	defer runtime.UnlockOSThread()
	for attempt := 0; ; attempt++ {
		if err := g.ensureGuard(); err != nil {
			return nil, err
		}
		req.Mark = newMark(g.mark)
		conn, err := g.sendRequest(req, files)
		died := errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
		if !died || attempt > 0 {
			return conn, err
		}
		g.killAndReap()
	}
}

// sendRequest sends a request. The guard answers on the socket of the returned connection.
func (g *guardClient) sendRequest(req *request, files []int) (*guardConn, error) {
	text, err := req.encode()
	if err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer syscall.Close(theirs) //nolint:errcheck // the guard has its own copy by then
	first := text
	if len(text) > maxMessage {
		first = strconv.AppendInt(nil, int64(len(text)), 10)
	}
	if err := send(g.socket, first, append([]int{theirs}, files...)...); err != nil {
		_ = syscall.Close(ours)
		return nil, fmt.Errorf("%w: send a request: %w", ErrGuard, err)
	}
	if len(text) > maxMessage {
		for part := range chunks(text) {
			if err := send(ours, part); err != nil {
				_ = syscall.Close(ours)
				return nil, fmt.Errorf("%w: send a long request: %w", ErrGuard, err)
			}
		}
	}
	return newGuardConn(ours, g.process.Pid), nil
}

func socketPair() (ours, theirs int, err error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: make a socket: %w", ErrGuard, err)
	}
	return pair[0], pair[1], nil
}

func chunks(text []byte) func(func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(text) > 0 {
			n := min(len(text), maxMessage/2)
			if !yield(text[:n]) {
				return
			}
			text = text[n:]
		}
	}
}

// ensureGuard starts a guard unless there is one with the profile of the calling thread.
func (g *guardClient) ensureGuard() error {
	own, err := threadProfile()
	if err != nil {
		return err
	}
	if g.process != nil {
		if g.profile == own {
			return nil
		}
		g.retire()
	}
	if err := g.startGuard(); err != nil {
		return err
	}
	// The profile may have changed while the guard started, so nobody knows which of the two the guard has.
	if g.profile, err = threadProfile(); err == nil && g.profile != own {
		err = fmt.Errorf("%w: what the host may do changed while its guard was started; try again", ErrGuard)
	}
	if err != nil {
		g.killAndReap()
	}
	return err
}

func (g *guardClient) startGuard() error {
	g.mark = hostMark()
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	socket := os.NewFile(uintptr(theirs), "guard")
	defer socket.Close() //nolint:errcheck // the guard has its own copy by then
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = syscall.Close(ours)
		return fmt.Errorf("%w: %w", ErrGuard, err)
	}
	defer null.Close() //nolint:errcheck // nothing was written
	process, err := os.StartProcess("/proc/self/exe", []string{guardName}, &os.ProcAttr{
		Env: append(os.Environ(), guardVariable+"=1"), Files: []*os.File{null, null, null, socket},
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		_ = syscall.Close(ours)
		return fmt.Errorf("%w: start the host's program again: %w", ErrGuard, err)
	}
	g.process, g.socket = process, ours
	if err := g.waitReady(); err != nil {
		return err
	}
	if err := checkSameUser(process.Pid); err != nil {
		g.killAndReap()
		return err
	}
	return nil
}

// waitReady waits until the new process reports that it is the guard.
func (g *guardClient) waitReady() error {
	var ready report
	fds := []pollFD{{fd: int32(g.socket), events: pollIn}}
	err := poll(fds, 10*time.Second)
	if err == nil && fds[0].ready() {
		var text []byte
		if text, _, err = receive(g.socket, make([]byte, 4096), 0); err == nil {
			err = json.Unmarshal(text, &ready)
		}
	}
	if err == nil && ready.Started == g.process.Pid {
		return nil
	}
	_ = g.process.Kill()
	g.killAndReap()
	return fmt.Errorf("%w: the host's program, started again, did not become the guard; "+
		"is it a Go program that links this package itself? %w", ErrGuard, errors.Join(err))
}

// retire gives up a guard that must take no more requests. The guard ends with the last of its trees.
func (g *guardClient) retire() {
	_ = syscall.Close(g.socket)
	go g.process.Wait() //nolint:errcheck // only reaps it
	g.process = nil
}

// killAndReap kills and reaps a guard that died or is of no use.
func (g *guardClient) killAndReap() {
	_ = g.process.Kill()
	_, _ = g.process.Wait()
	_ = syscall.Close(g.socket)
	g.process = nil
}
