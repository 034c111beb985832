//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package tty

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Supported says that there are Terminals here.
const Supported = true

// A Terminal is a pseudo-terminal of a command, which stands for the controlling terminal of this process.
//
// From Start to EndInput the host's terminal passes all keys on as they are, as long as the process is in its
// foreground. Ctrl-C and Ctrl-\ are signals for the command and then for the job of this process, and Ctrl-Z stops the
// command's tree and then the job: so each is one for the job, as it is without this. What is typed after the end of
// the command is for the next program.
type Terminal struct {
	host    *os.File // in the runtime's poller, which the host's own file need not be
	command *os.File // what the command has; open to the end, so that what reads its output meets no end before
	output  *os.File // the other side
	modes   Change
	tree    Tree
	changed func() // the output was stopped, or goes on

	stopped atomic.Bool    // the output, by Ctrl-S
	news    chan os.Signal // SIGWINCH, SIGCONT
	running sync.WaitGroup
	ending  chan struct{}

	mu    sync.Mutex // held while the modes of the host's terminal change, and while the process is stopped
	ended bool       // ending is closed
}

// lent says that a Terminal stands for the host's: a second one would take the modes of the first for the host's own.
var lent atomic.Bool

var errLent = errors.New("another command has the terminal; give it to one at a time")

// Open makes a terminal of the size and the modes of the host's. There can be one at a time.
func Open() (*Terminal, error) {
	if !lent.CompareAndSwap(false, true) {
		return nil, errLent
	}
	t := &Terminal{news: make(chan os.Signal, 2), ending: make(chan struct{}), changed: func() {}}
	if err := t.open(); err != nil {
		t.Close()
		return nil, fmt.Errorf("open a pseudo-terminal: %w", err)
	}
	return t, nil
}

func (t *Terminal) open() (err error) {
	if t.host, err = os.OpenFile(own, os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return err
	}
	if t.modes.Before, err = modesOf(t.host); err != nil {
		return os.NewSyscallError("tcgetattr", err)
	}
	if !inForeground(t.host) { // else the modes are those in which a shell reads a line
		t.modes.Before = cooked(t.modes.Before)
	}
	t.modes.During = raw(t.modes.Before)
	if t.output, t.command, err = Pair(); err != nil {
		return err
	}
	t.resize()
	return os.NewSyscallError("tcsetattr", setModes(t.command, &t.modes.Before))
}

// Pair opens a pseudo-terminal: what is written to the one side is read from the other. Only the first is in the
// runtime's poller, because a command expects that the second one blocks.
func Pair() (output, command *os.File, err error) {
	if output, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
		return nil, nil, err
	}
	var locked, number int32
	if err = call(output, syscall.TIOCSPTLCK, unsafe.Pointer(&locked)); err == nil {
		err = call(output, syscall.TIOCGPTN, unsafe.Pointer(&number))
	}
	path := "/dev/pts/" + strconv.Itoa(int(number))
	fd := -1
	if err == nil {
		fd, err = syscall.Open(path, syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	}
	if err != nil {
		_ = output.Close() // nothing was written
		return nil, nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return output, os.NewFile(uintptr(fd), path), nil
}

// raw returns the modes of a terminal that passes all on as it is, as cfmakeraw does.
func raw(modes Modes) Modes {
	modes.Iflag &^= syscall.IGNBRK | syscall.BRKINT | syscall.PARMRK | syscall.ISTRIP | syscall.INLCR | syscall.IGNCR |
		syscall.ICRNL | syscall.IXON
	modes.Oflag &^= syscall.OPOST
	modes.Lflag &^= syscall.ECHO | syscall.ECHONL | syscall.ICANON | syscall.ISIG | syscall.IEXTEN
	modes.Cflag = modes.Cflag&^(syscall.CSIZE|syscall.PARENB) | syscall.CS8
	modes.Cc[syscall.VMIN], modes.Cc[syscall.VTIME] = 1, 0
	return modes
}

// A Change is how a terminal is set before a command has it, and during that.
type Change struct{ Before, During Modes }

// Undo sets a terminal as it was, unless somebody has changed it since. This process need not be in its foreground.
func (c *Change) Undo(terminal int) {
	var now Modes
	if ioctl(uintptr(terminal), syscall.TCGETS, unsafe.Pointer(&now)) == nil && now == c.During {
		unstopped(func() { _ = ioctl(uintptr(terminal), syscall.TCSETS, unsafe.Pointer(&c.Before)) }) // it may be gone
	}
}

// cooked returns the modes of a terminal that has a line edited and shown, as a shell sets them for a program.
func cooked(modes Modes) Modes {
	modes.Iflag |= syscall.ICRNL | syscall.IXON
	modes.Oflag |= syscall.OPOST | syscall.ONLCR
	modes.Lflag |= syscall.ISIG | syscall.ICANON | syscall.IEXTEN | syscall.ECHO | syscall.ECHOE | syscall.ECHOK
	return modes
}

// Command returns the side that the command has.
func (t *Terminal) Command() *os.File { return t.command }

// Controls returns the attributes of a command whose controlling terminal is that descriptor, in a session of its own.
func Controls(attr *syscall.SysProcAttr, descriptor int) *syscall.SysProcAttr {
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	all := *attr
	all.Setsid, all.Setpgid, all.Setctty, all.Ctty = true, false, true, descriptor
	return &all
}

// Output returns the side that the command's output is read from. The caller may close it.
func (t *Terminal) Output() *os.File { return t.output }

// Host returns the terminal of this process, and how Start changes it. It is called before Start.
func (t *Terminal) Host() (*os.File, Change) { return t.host, t.modes }

// Start begins to pass on what is typed to a tree that has the terminal as its controlling one. It calls changed when a
// person stops the output, or has it go on.
func (t *Terminal) Start(tree Tree, changed func()) {
	t.tree, t.changed = tree, changed
	signal.Notify(t.news, syscall.SIGWINCH, syscall.SIGCONT)
	t.mu.Lock()
	t.attach()
	t.mu.Unlock()
	t.running.Go(t.heed)
	t.running.Go(t.copyInput)
}

// Stopped reports whether a person has stopped the output, by Ctrl-S: then the command is not silent by itself.
func (t *Terminal) Stopped() bool { return t != nil && t.stopped.Load() }

// EndInput stops taking what is typed. It returns when nothing takes any.
func (t *Terminal) EndInput() {
	if t == nil {
		return
	}
	t.mu.Lock()
	if !t.ended {
		t.ended = true
		close(t.ending)
		_ = t.host.SetReadDeadline(longAgo) // fails only on a closed file
		_ = t.output.SetWriteDeadline(longAgo)
	}
	t.mu.Unlock()
	t.running.Wait()
}

var longAgo = time.Unix(1, 0)

// Close sets the host's terminal as it was, and takes the command's away.
func (t *Terminal) Close() {
	if t == nil {
		return
	}
	t.EndInput()
	signal.Stop(t.news)
	if t.tree != nil {
		t.detach()
	}
	for _, f := range []*os.File{t.host, t.command, t.output} {
		_ = f.Close() // nothing is left to write
	}
	lent.Store(false)
}

func (t *Terminal) heed() {
	for {
		select {
		case <-t.ending:
			return
		case <-t.news:
			t.mu.Lock()
			t.attach()
			t.mu.Unlock()
		}
	}
}

// attach has the host's terminal pass on what is typed, if this process is in its foreground. Else it has whoever waits
// for input look at that again.
func (t *Terminal) attach() {
	t.resize()
	switch {
	case t.ended:
	case inForeground(t.host):
		now, err := modesOf(t.host)
		if err != nil || now == t.modes.During {
			return
		}
		if own, err := modesOf(t.command); err == nil && own == t.modes.Before {
			_ = setModes(t.command, &now) // it is the caller's until Close
		}
		t.modes.Before = now // a shell may have set them since
		_ = setModes(t.host, &t.modes.During)
	default:
		t.detach()
		_ = t.host.SetReadDeadline(longAgo) // fails only on a closed file
	}
}

// detach sets the host's terminal as it was, also in the background: not every shell does so itself.
func (t *Terminal) detach() {
	if host, err := t.host.SyscallConn(); err == nil {
		_ = host.Control(func(fd uintptr) { t.modes.Undo(int(fd)) }) // fails only on a closed file
	}
}

// resize gives the command's terminal the size of the host's. That tells the command if the size is another one.
func (t *Terminal) resize() {
	var size [4]uint16
	if call(t.host, syscall.TIOCGWINSZ, unsafe.Pointer(&size)) == nil {
		_ = call(t.output, syscall.TIOCSWINSZ, unsafe.Pointer(&size)) // the caller may have closed it
	}
}

// suspend stops the tree and this process with its job, and returns when they go on.
func (t *Terminal) suspend() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended || !canContinue() {
		return
	}
	_, _ = t.tree.Signal(syscall.SIGSTOP) // fails if the command has ended
	t.detach()
	continued := make(chan os.Signal, 1)
	signal.Notify(continued, syscall.SIGCONT)
	defer signal.Stop(continued)
	// Not SIGTSTP, which the host may catch. Nor is that caught here, if it comes from elsewhere: package signal cannot
	// have it stop this process again.
	if syscall.Kill(0, syscall.SIGSTOP) == nil {
		<-continued
	}
	t.attach() // first: a program draws its screen again when it goes on
	_, _ = t.tree.Signal(syscall.SIGCONT)
}

// canContinue reports whether there is a shell that has this process in a job, and could continue it: its parent, or
// that of a process of the same group above it. Ctrl-Z does nothing to a job without one.
func canContinue() bool {
	group := syscall.Getpgrp()
	session, _ := sessionOf(os.Getpid())
	for pid := os.Getppid(); pid > 0; {
		above, parent := sessionOf(pid)
		if other, err := syscall.Getpgid(pid); err != nil || other != group {
			return err == nil && above == session && session != 0
		}
		pid = parent
	}
	return false
}

// sessionOf returns the session of a process, and its parent.
func sessionOf(pid int) (session, parent int) {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // state, parent, group, session
	if len(fields) < 4 {
		return 0, 0
	}
	parent, _ = strconv.Atoi(fields[1])
	session, _ = strconv.Atoi(fields[3])
	return session, parent
}
