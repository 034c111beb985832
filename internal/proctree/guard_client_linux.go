//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// A guardClient is the host's side of one guard.
type guardClient struct {
	pool    *guardPool
	profile profile // of the thread that started the guard, and so the guard's

	ready   chan struct{} // closed when the guard has started or failed; the fields up to err do not change after that
	process *os.Process   // nil if it could not be started
	socket  *os.File      // not in the runtime's poller, which would wake up for each request that the guard takes
	raw     syscall.RawConn
	mark    mark // of the host itself
	err     error

	// The pool's lock protects these.
	users     int // commands, and starts of commands
	idleSince time.Time
	ending    bool
	silent    bool   // it did not answer in time
	abandoned []mark // of starts that it did not answer
}

func newGuardClient(p *guardPool, own profile) *guardClient {
	return &guardClient{pool: p, profile: own, ready: make(chan struct{})}
}

// start starts the guard from the calling thread. It does not wait until the guard is ready.
func (g *guardClient) start(c *caller) {
	own, err := g.startProcess(c)
	if err != nil {
		g.fail(err)
		return
	}
	go func() {
		if err := g.awaitReady(own, c.status); err != nil {
			g.fail(err)
			return
		}
		close(g.ready)
	}()
}

// startProcess returns the host's end of the guard's socket.
func (g *guardClient) startProcess(c *caller) (int, error) {
	g.mark = markOf(os.Getpid())
	ours, theirs, err := socketPair()
	if err != nil {
		return 0, err
	}
	g.socket = os.NewFile(uintptr(ours), "guard")
	g.raw, _ = g.socket.SyscallConn() // fails only if the file is closed
	err = g.execute(theirs)
	_ = syscall.Close(theirs) // the guard has its own copy; this one would hide its death
	switch {
	case errors.Is(err, syscall.EACCES):
		return 0, fmt.Errorf("%w: start the host's program again: %w; "+
			"its file must be executable for the user and the groups that the host has now", ErrGuard, err)
	case err != nil:
		return 0, fmt.Errorf("%w: start the host's program again: %w", ErrGuard, err)
	}
	// The profile may have changed while the guard started, so nobody knows which of the two the guard has.
	now, err := readCaller()
	if err == nil && now.profile != c.profile {
		err = fmt.Errorf("%w: what the host may do changed while its guard was started; try again", ErrGuard)
	}
	return ours, err
}

// execute starts the host's program again. It does not call os.StartProcess, which first starts another process to find
// out what the system can do.
func (g *guardClient) execute(socket int) error {
	null, err := syscall.Open(os.DevNull, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	defer syscall.Close(null) //nolint:errcheck // nothing was written
	const program = "/proc/self/exe"
	pid, err := syscall.ForkExec(program, []string{guardName}, &syscall.ProcAttr{
		// It has one thread that works: others would only wake each other up. Of two equal names the first one counts.
		Env:   append([]string{guardVariable + "=1", "GOMAXPROCS=1"}, os.Environ()...),
		Files: []uintptr{uintptr(null), uintptr(null), uintptr(null), uintptr(socket)},
		// Until it is the guard, so that it does not outlive a host that dies first, whatever initializes the program.
		Sys: &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return &os.PathError{Op: "fork/exec", Path: program, Err: err}
	}
	g.process, err = os.FindProcess(pid)
	return err
}

func (g *guardClient) fail(err error) {
	if g.process != nil {
		_ = g.process.Kill()
		_, _ = g.process.Wait()
	}
	if g.socket != nil {
		_ = g.socket.Close()
	}
	g.err, g.process = err, nil
	g.pool.retire(g)
	close(g.ready)
}

func (g *guardClient) awaitReady(socket int, host []byte) error {
	if err := g.awaitReport(socket); err != nil {
		return err
	}
	var ready report
	text, _, _, err := receive(socket, make([]byte, 4096), 0)
	if err == nil {
		err = json.Unmarshal(text, &ready)
	}
	if err != nil || ready.Started != g.process.Pid {
		_ = g.process.Kill()
		state, _ := g.process.Wait()
		return fmt.Errorf("%w: the host's program, started again, ended before it became the guard (%v); "+
			"is it a Go program that links this package itself, and may it start more processes and threads?", ErrGuard, state)
	}
	if ready.Error != "" {
		return guardError(ready.Error)
	}
	status, err := os.ReadFile("/proc/" + strconv.Itoa(ready.Started) + "/status")
	if err != nil {
		return fmt.Errorf("%w: read what the guard may do: %w", ErrGuard, err)
	}
	return checkExecuted(host, status)
}

// awaitReport waits until the new process has sent something, or has ended.
func (g *guardClient) awaitReport(socket int) error {
	fds := []pollFD{{fd: int32(socket), events: pollIn}}
	for until := time.Now().Add(startBound); time.Now().Before(until); {
		if err := poll(fds, stoppedAfter); err != nil {
			return fmt.Errorf("%w: wait until it has started: %w", ErrGuard, err)
		}
		if fds[0].ready() {
			return nil
		}
		if p, err := readStat(g.process.Pid); err == nil && p.stopped() {
			return errStopped
		}
	}
	return fmt.Errorf("%w: the host's program, started again, did not become the guard within %v; "+
		"is the machine overloaded, or an initializer of the program slow?", ErrGuard, startBound)
}

func (g *guardClient) startCommand(ctx context.Context, req *request, files []int) (*Tree, error) {
	select {
	case <-g.ready:
		if g.err != nil {
			return nil, g.err
		}
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the guard process to start: %w", context.Cause(ctx))
	}
	req.Mark = newMark(g.mark)
	conn, err := g.sendRequest(ctx, req, files)
	if err == nil {
		var tree *Tree
		if tree, err = conn.waitStarted(ctx, req); err == nil {
			return tree, nil
		}
	}
	if ctx.Err() != nil || errors.Is(err, errStopped) {
		g.abandon(ctx, req.Mark)
	}
	return nil, err
}

// sendRequest sends a request. The guard answers on the socket of the returned connection.
func (g *guardClient) sendRequest(ctx context.Context, req *request, files []int) (*guardConn, error) {
	text, err := req.encode()
	if err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	conn := newGuardConn(g, ours, req.Mark)
	first, isLong := text, len(text) > maxMessage
	if isLong {
		first = strconv.AppendInt(nil, int64(len(text)), 10)
	}
	err = g.send(ctx, first, append([]int{theirs}, files...))
	_ = syscall.Close(theirs) // the guard has its own copy; this one would hide its death
	if err == nil && isLong {
		err = conn.sendLong(ctx, text)
	}
	if err != nil {
		_ = conn.socket.Close()
		return nil, err
	}
	return conn, nil
}

// send sends a message to the guard. It waits while the guard's socket is full.
func (g *guardClient) send(ctx context.Context, text []byte, files []int) error {
	for {
		var err error
		if g.raw.Control(func(fd uintptr) { err = send(int(fd), text, syscall.MSG_DONTWAIT, files...) }) != nil {
			return errGuardGone
		}
		switch {
		case err == nil:
			return nil
		case isGone(err):
			return errGuardGone
		case !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, syscall.ETOOMANYREFS):
			return fmt.Errorf("%w: send a request: %w", ErrGuard, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("send a request to the guard process: %w", context.Cause(ctx))
		case <-time.After(longestPause):
		}
	}
}

func socketPair() (ours, theirs int, err error) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, fmt.Errorf("%w: make a socket: %w", ErrGuard, err)
	}
	return pair[0], pair[1], nil
}

func (g *guardClient) stopped() bool {
	if !isClosed(g.ready) || g.process == nil {
		return false
	}
	p, err := readStat(g.process.Pid)
	return err == nil && p.stopped()
}

// unable reports whether the guard has died or a signal stopped it. It costs less than stopped, but misses a debugger.
func (g *guardClient) unable() bool {
	if !isClosed(g.ready) || g.process == nil {
		return isClosed(g.ready)
	}
	found, err := lookAtChild(onePID, g.process.Pid, childStopped|childExited)
	return err == nil && found != 0
}

func (g *guardClient) gone() (gone bool) {
	err := g.raw.Control(func(fd uintptr) { gone = isReady(int(fd), pollIn) })
	return gone || err != nil
}

// abandon gives up a request without an answer. A guard that is stopped, or did not answer in time, gets no more.
func (g *guardClient) abandon(ctx context.Context, m mark) {
	if !g.stopped() && !errors.Is(context.Cause(ctx), errNoAnswer) {
		return
	}
	g.pool.mu.Lock()
	defer g.pool.mu.Unlock()
	g.silent = true
	g.abandoned = append(g.abandoned, m)
	g.pool.remove(g)
}

// end ends a guard without commands. The caller holds the pool's lock.
func (g *guardClient) end() {
	if !g.ending {
		g.ending = true
		go g.reap(g.silent, g.abandoned)
	}
}

// reap waits until the guard has ended. It kills what a silent guard may have left of unanswered requests.
func (g *guardClient) reap(kill bool, abandoned []mark) {
	<-g.ready
	if g.process == nil {
		return
	}
	_ = g.socket.Close()
	if kill || g.stopped() {
		_ = g.process.Kill()
	}
	timer := time.AfterFunc(startBound, func() { _ = g.process.Kill() })
	defer timer.Stop()
	_, _ = g.process.Wait()
	for _, m := range abandoned {
		killMarked(m, 0)
	}
}
