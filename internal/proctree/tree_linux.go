//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Start starts the command and begins to watch its tree. Attributes that the tree needs for itself or cannot have are an error that wraps
// [ErrUnsupported]: Pgid, Foreground, Ptrace, PidFD, UseCgroupFD, and Chroot without a Dir; Pdeathsig is the tree's own. A program that cannot be started is an
// error of the system, as from [os.StartProcess], a guard that cannot one that wraps [ErrGuard].
func Start(c Command) (*Tree, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	ask := c.request()
	files, err := c.descriptors(ask)
	if err != nil {
		return nil, err
	}
	l, err := theGuard.begin(ask, files)
	if ask.Dir == "" {
		_ = syscall.Close(files[0])
	}
	runtime.KeepAlive(c.Files)
	if err != nil {
		return nil, err
	}
	return l.started(c.Path, ask.Mark)
}

// check refuses what cannot be asked of the guard.
func (c Command) check() error {
	const mostFiles = 250
	if len(c.Files) > mostFiles {
		return fmt.Errorf("%w: %d files; at most %d can be given", ErrUnsupported, len(c.Files), mostFiles)
	}
	for _, all := range [][]string{{c.Path, c.Dir}, c.Args, c.Env} {
		for _, s := range all {
			if strings.IndexByte(s, 0) >= 0 {
				return &os.PathError{Op: "fork/exec", Path: c.Path, Err: syscall.EINVAL}
			}
		}
	}
	if c.Attr != nil && c.Attr.Chroot != "" && c.Dir == "" {
		return fmt.Errorf("%w: SysProcAttr.Chroot without a Dir; set Dir to a folder below the new root, such as /", ErrUnsupported)
	}
	return checkAttr(c.Attr)
}

func checkAttr(attr *syscall.SysProcAttr) error {
	if attr == nil {
		return nil
	}
	for field, set := range map[string]bool{
		"Pgid": attr.Pgid != 0, "Foreground": attr.Foreground, "Ptrace": attr.Ptrace, "PidFD": attr.PidFD != nil, "UseCgroupFD": attr.UseCgroupFD,
	} {
		if set {
			return fmt.Errorf("%w: SysProcAttr.%s is set; the command's process group, terminal and descriptor are the guard's", ErrUnsupported, field)
		}
	}
	return nil
}

// request is the command as the guard is asked for it.
func (c Command) request() *request {
	ask := &request{Path: c.Path, Args: c.Args, Env: c.Env, SameGroup: c.SameGroup, Umask: umask(), Group: syscall.Getpgrp()}
	if c.Attr != nil {
		attr := *c.Attr
		ask.Root, attr.Chroot = attr.Chroot, ""
		ask.Attr = &attr
	}
	if ask.Root != "" {
		ask.Dir = c.Dir
	}
	return ask
}

// descriptors are those that go with a request: the folder, as the host sees it, and the files.
func (c Command) descriptors(ask *request) ([]int, error) {
	var files []int
	if ask.Dir == "" {
		const onlyPath = 0x200000
		here := cmp.Or(c.Dir, ".")
		folder, err := syscall.Open(here, onlyPath|syscall.O_DIRECTORY|syscall.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "chdir", Path: here, Err: err}
		}
		files = append(files, folder)
	}
	for _, f := range c.Files {
		fd := ^uintptr(0)
		if f != nil {
			fd = f.Fd()
		}
		closed := fd == ^uintptr(0)
		ask.Closed = append(ask.Closed, closed)
		if !closed {
			files = append(files, int(fd))
		}
	}
	return files, nil
}

// umask reads the host's umask, which only a change returns otherwise.
func umask() int {
	text, err := os.ReadFile("/proc/self/status")
	if err == nil {
		if value, ok := statusField(text, "Umask"); ok {
			if mask, err := strconv.ParseInt(value, 8, 32); err == nil {
				return int(mask)
			}
		}
	}
	return 0o22
}

// A guardian is the host's side of its guard, which is started when it is needed.
type guardian struct {
	mu      sync.Mutex
	process *os.Process
	socket  int
	profile profile // of the thread that started it, and so the guard's
	mark    mark    // of the host itself
}

var theGuard guardian

// begin has the guard start a command; if the guard was killed meanwhile, or may do more or less than the calling thread, a new one.
func (g *guardian) begin(ask *request, files []int) (*hostLink, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	runtime.LockOSThread() // the profile is this thread's
	defer runtime.UnlockOSThread()
	for tries := 0; ; tries++ {
		if err := g.ensure(); err != nil {
			return nil, err
		}
		ask.Mark = newMark(g.mark)
		l, err := g.ask(ask, files)
		if died := errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET); !died || tries > 0 {
			return l, err
		}
		g.bury()
	}
}

// ask sends a request. The answer comes on the tree's own socket.
func (g *guardian) ask(ask *request, files []int) (*hostLink, error) {
	text, err := ask.encode()
	if err != nil {
		return nil, err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer syscall.Close(theirs) //nolint:errcheck // the guard has its own by then
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
	return newHostLink(ours), nil
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

// ensure starts the guard if there is none with the profile of the calling thread.
func (g *guardian) ensure() error {
	own, err := ownProfile()
	if err != nil {
		return err
	}
	if g.process != nil {
		if g.profile == own {
			return nil
		}
		g.retire()
	}
	if err := g.start(); err != nil {
		return err
	}
	if g.profile, err = ownProfile(); err == nil && g.profile != own { // it changed while the guard was started, before or after
		err = fmt.Errorf("%w: what the host may do changed while its guard was started; try again", ErrGuard)
	}
	if err != nil {
		g.bury()
	}
	return err
}

// start starts the guard.
func (g *guardian) start() error {
	g.mark = ownMark()
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	socket := os.NewFile(uintptr(theirs), "guard")
	defer socket.Close() //nolint:errcheck // the guard has its own by then
	nothing, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		_ = syscall.Close(ours)
		return fmt.Errorf("%w: %w", ErrGuard, err)
	}
	defer nothing.Close() //nolint:errcheck // nothing was written
	process, err := os.StartProcess("/proc/self/exe", []string{guardName}, &os.ProcAttr{
		Env: append(os.Environ(), guardVariable+"=1"), Files: []*os.File{nothing, nothing, nothing, socket},
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		_ = syscall.Close(ours)
		return fmt.Errorf("%w: start the host's program again: %w", ErrGuard, err)
	}
	g.process, g.socket = process, ours
	if err := g.greet(); err != nil {
		return err
	}
	if err := sameUser(process.Pid); err != nil {
		g.bury()
		return err
	}
	return nil
}

// greet waits until the guard has said that it is one.
func (g *guardian) greet() error {
	var hello news
	waits := []waiting{{fd: int32(g.socket), events: pollIn}}
	err := poll(waits, 10*time.Second)
	if err == nil && waits[0].ready() {
		var text []byte
		if text, _, err = hear(g.socket, make([]byte, 4096), 0); err == nil {
			err = json.Unmarshal(text, &hello)
		}
	}
	if err == nil && hello.Started == g.process.Pid {
		return nil
	}
	_ = g.process.Kill()
	g.bury()
	return fmt.Errorf("%w: the host's program, started again, did not become the guard; is it a Go program that links this package itself? %w",
		ErrGuard, errors.Join(err))
}

// retire lets go of a guard that can be asked for nothing more: it ends with the last of its trees.
func (g *guardian) retire() {
	_ = syscall.Close(g.socket)
	go g.process.Wait() //nolint:errcheck // only so that it does not stay a zombie
	g.process = nil
}

// bury waits for a guard that has died.
func (g *guardian) bury() {
	_ = g.process.Kill()
	_, _ = g.process.Wait()
	_ = syscall.Close(g.socket)
	g.process = nil
}
