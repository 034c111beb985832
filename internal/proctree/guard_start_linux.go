//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// errTooManyFiles says that the guard cannot open the descriptors of one more command.
var errTooManyFiles = errors.New("it has too few free descriptors for the command; " +
	"raise the host's limit (ulimit -n), " +
	"run fewer commands at once, or give the command fewer files")

// receiveRequest receives one request and starts its command. A request of which nothing can be received fails alone:
// its socket is closed with it, which tells the host.
func (g *guard) receiveRequest(text []byte) {
	got, files, missing, err := receive(guardSocket, text, maxFiles+3)
	switch {
	case errors.Is(err, syscall.ENOMEM), errors.Is(err, syscall.ENOBUFS):
		time.Sleep(longestPause)
	case err != nil:
		g.hostGone = true
	case len(files) > 0:
		// Without them a guard whose commands took all that it may have could not end them.
		const reserve = 32 // with which the guard looks at its trees in /proc
		nearLimit := uint64(slices.Max(files)) >= g.fileLimit-min(reserve, g.fileLimit/4)
		g.handleRequest(got, files, missing || nearLimit)
	}
}

// handleRequest starts a command and reports the result. The first descriptor is the tree's socket.
func (g *guard) handleRequest(text []byte, files []int, tooManyFiles bool) {
	socket := files[0]
	t, err := (*guardedTree)(nil), errTooManyFiles
	if !tooManyFiles {
		t, err = g.startCommand(socket, text, files[1:])
	}
	if err == nil && t.terminal >= 0 {
		files = files[:len(files)-1] // the tree keeps it
	}
	closeAll(files[1:])
	if err != nil {
		var errno syscall.Errno
		r := report{Error: err.Error(), Unfit: errors.Is(err, errCannotSchedule) || errors.Is(err, errTooManyFiles)}
		if errors.As(err, &errno) {
			r.Errno = errno
		}
		_ = sendJSON(socket, r)
		_ = syscall.Close(socket)
		return
	}
	_ = sendJSON(socket, report{Started: t.leader})
	g.trees = append(g.trees, t)
}

func (g *guard) startCommand(socket int, text []byte, files []int) (*guardedTree, error) {
	text, err := readWholeRequest(socket, text)
	if err != nil {
		return nil, err
	}
	req, err := decodeRequest(text)
	if err != nil {
		return nil, err
	}
	if isReady(socket, 0) { // the host has given up the request
		return nil, errPeerClosed
	}
	dir := req.Dir
	if dir == "" {
		if dir, err = req.enter(files[0]); err != nil {
			return nil, err
		}
		defer os.Chdir("/") //nolint:errcheck // see guardMain
		files = files[1:]
	}
	g.hostGroup = req.Group
	g.lookAtKept()
	syscall.Umask(req.Umask)
	if err := req.Mark.set(); err != nil {
		return nil, err
	}
	defer syscall.Setrlimit(rlimitLocks, &g.lockLimit) //nolint:errcheck // or the guard would look like one of the tree
	fd, pid, began := -1, 0, ticksNow()
	failed := g.scheduler.call(req.Scheduling, func() {
		g.stops.during(func() {
			pid, err = syscall.ForkExec(req.Path, req.Args, &syscall.ProcAttr{
				Dir: dir, Env: req.Env, Files: req.childFiles(files), Sys: req.sysProcAttr(&fd),
			})
		})
	})
	if err = cmp.Or(failed, err); err != nil {
		return nil, err
	}
	t := &guardedTree{
		guard: g, mark: req.Mark, leader: pid, fd: fd, socket: socket, grouped: !req.SameGroup, startTicks: began,
		releases: req.Releases, terminal: -1,
	}
	if req.Terminal != nil {
		t.terminal, t.modes = files[len(files)-1], *req.Terminal
	}
	g.leaders[pid] = t
	return t, nil
}

// enter has the command begin in a folder. It returns what the new process has to change to: nothing if it may do what
// the guard may, because to enter the folder here costs nothing, and the new process would first have to open /proc.
func (r *request) enter(folder int) (dir string, err error) {
	if r.Attr != nil {
		return "/proc/self/fd/" + strconv.Itoa(folder), nil
	}
	return "", syscall.Fchdir(folder)
}

// readWholeRequest returns the whole request. If it was too long for one message, text holds only its length, and the
// request follows on the tree's socket.
func readWholeRequest(socket int, text []byte) ([]byte, error) {
	if text[0] == '{' {
		return text, nil
	}
	length, err := strconv.Atoi(string(text))
	if err != nil {
		return nil, fmt.Errorf("read the length of a request: %w", err)
	}
	all := make([]byte, 0, length)
	part := make([]byte, maxMessage)
	for len(all) < length {
		if err := poll([]pollFD{{fd: int32(socket), events: pollIn}}, 5*time.Second); err != nil {
			return nil, fmt.Errorf("read a long request: %w", err)
		}
		n, _, err := syscall.Recvfrom(socket, part, syscall.MSG_DONTWAIT)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("read a long request: %w", errors.Join(err, errPeerClosed))
		}
		all = append(all, part[:n]...)
	}
	return all, nil
}

// childFiles returns the descriptor table of the command. A closed entry is ^uintptr(0).
func (r *request) childFiles(files []int) []uintptr {
	all := make([]uintptr, len(r.Closed))
	next := 0
	for i, closed := range r.Closed {
		if closed {
			all[i] = ^uintptr(0)
			continue
		}
		all[i] = uintptr(files[next])
		next++
	}
	return all
}

// sysProcAttr adds what the tree needs to the command's attributes.
func (r *request) sysProcAttr(pidfd *int) *syscall.SysProcAttr {
	attr := r.Attr
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	attr.Chroot = r.Root
	attr.PidFD = pidfd
	attr.Pdeathsig = syscall.SIGKILL // in case the guard itself is killed
	if !attr.Setsid {
		attr.Setpgid = true
		if r.SameGroup {
			attr.Pgid = r.Group
		}
	}
	return attr
}

func closeAll(files []int) {
	for _, fd := range files {
		_ = syscall.Close(fd)
	}
}
