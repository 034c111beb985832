//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// How a process knows that it is to be the guard: by both, and by a socket at guardSocket.
const (
	guardName     = "watchdog-guard"
	guardVariable = "WATCHDOG_GUARD_PROCESS"
	guardSocket   = 3
)

// The guard is the host's program again, and this is where it becomes the guard, before main and before most of what else the program initializes.
func init() {
	if len(os.Args) != 1 || os.Args[0] != guardName || os.Getenv(guardVariable) == "" {
		return
	}
	if kind, err := syscall.GetsockoptInt(guardSocket, syscall.SOL_SOCKET, syscall.SO_TYPE); err != nil || kind != syscall.SOCK_SEQPACKET {
		return
	}
	runtime.LockOSThread() // the commands' parent is a thread, and this one lives as long as the process
	syscall.Exit(beGuard())
}

// A guard is the process that starts the commands of a host and outlives it for as long as it takes to end them. All that it does is done by one thread, one thing
// after the other: no number of a child of its changes hands while it looks, and nobody has to be woken on the way from a command's end to the host.
type guard struct {
	pid    int
	live   map[int]*ward // by their leaders that were not waited for
	wards  []*ward
	own    syscall.Rlimit
	left   []mark // of trees whose rest was released
	orphan bool   // the host is gone
	fds    []waiting
	tidied time.Time
}

// tidying is how often the guard waits for orphans that end while their trees live on.
const tidying = time.Second

func beGuard() int {
	syscall.CloseOnExec(guardSocket)
	_ = os.Chdir("/") // not to hold on to the host's folder
	_ = prctl(prSetName, uintptr(unsafe.Pointer(unsafe.StringData(guardName+"\x00"))))
	withstand()
	if err := prctl(prSetChildSubreaper, 1); err != nil {
		return 1
	}
	g := &guard{pid: os.Getpid(), live: map[int]*ward{}}
	if err := syscall.Getrlimit(rlimitLocks, &g.own); err != nil {
		return 1
	}
	if err := tell(guardSocket, news{Started: g.pid}); err != nil {
		return 1
	}
	g.run()
	return 0
}

// withstand keeps signals that are meant for the host, or for all of its name, from ending the guard. They are caught and not ignored, because what is ignored
// would be ignored by the commands; what the host ignores stays so.
func withstand() {
	caught := make(chan os.Signal, 1)
	for sig := syscall.Signal(1); sig < 32; sig++ {
		switch sig {
		case syscall.SIGKILL, syscall.SIGSTOP, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGABRT, syscall.SIGTRAP, syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPROF:
		default:
			if !signal.Ignored(sig) {
				signal.Notify(caught, sig)
			}
		}
	}
}

// run starts what is asked for and serves the trees, until the host and all of them are gone.
func (g *guard) run() {
	text := make([]byte, maxMessage)
	for !g.orphan || len(g.wards) > 0 {
		asked := g.await()
		if asked {
			g.listen(text)
		}
		for _, w := range slices.Clone(g.wards) {
			w.serve()
		}
		g.tidy()
	}
}

// tidy waits for the orphans that have ended while others of their tree live.
func (g *guard) tidy() {
	if time.Since(g.tidied) >= tidying && len(g.wards)+len(g.left) > 0 {
		g.tidied = time.Now()
		g.adopted()
	}
}

// await waits until there is something to do, and reports that the host asked for something.
func (g *guard) await() (asked bool) {
	g.fds = g.fds[:0]
	g.add(guardSocket, g.orphan)
	most := time.Duration(-1)
	if len(g.wards)+len(g.left) > 0 {
		most = tidying
	}
	for _, w := range g.wards {
		g.add(w.fd, w.fd < 0)
		g.add(w.socket, w.orphaned)
		most = min(most, w.patience())
	}
	if poll(g.fds, most) != nil {
		time.Sleep(longestPause) // there is no memory for it
	}
	for i, w := range g.wards {
		w.ended, w.told = g.fds[1+2*i].ready(), g.fds[2+2*i].ready()
	}
	return g.fds[0].ready()
}

// add adds a descriptor to what is waited for, or nothing in its place.
func (g *guard) add(fd int, not bool) {
	if not {
		fd = -1
	}
	g.fds = append(g.fds, waiting{fd: int32(fd), events: pollIn})
}

// listen starts what is asked for.
func (g *guard) listen(text []byte) {
	got, files, err := hear(guardSocket, text, 253)
	if err != nil || len(files) == 0 {
		g.orphan = true
		return
	}
	g.begin(got, files)
}

// begin starts a command. The first descriptor is the tree's socket.
func (g *guard) begin(text []byte, files []int) {
	socket := files[0]
	w, err := g.start(socket, text, files[1:])
	closeAll(files[1:])
	if err != nil {
		var errno syscall.Errno
		n := news{Problem: err.Error()}
		if errors.As(err, &errno) {
			n.Failed = errno
		}
		_ = tell(socket, n)
		_ = syscall.Close(socket)
		return
	}
	_ = tell(socket, news{Started: w.leader})
	g.wards = append(g.wards, w)
}

func (g *guard) start(socket int, text []byte, files []int) (*ward, error) {
	text, err := whole(socket, text)
	if err != nil {
		return nil, err
	}
	ask, err := decode(text)
	if err != nil {
		return nil, err
	}
	dir := ask.Dir
	if dir == "" {
		dir = "/proc/self/fd/" + strconv.Itoa(files[0])
		files = files[1:]
	}
	syscall.Umask(ask.Umask)
	if err := ask.Mark.set(); err != nil {
		return nil, err
	}
	defer syscall.Setrlimit(rlimitLocks, &g.own) //nolint:errcheck // it was so before; and the guard is not to be taken for one of the tree
	fd := -1
	pid, err := syscall.ForkExec(ask.Path, ask.Args, &syscall.ProcAttr{Dir: dir, Env: ask.Env, Files: ask.childFiles(files), Sys: ask.attr(&fd)})
	if err != nil {
		return nil, err
	}
	w := &ward{guard: g, mark: ask.Mark, leader: pid, fd: fd, socket: socket, grouped: !ask.SameGroup}
	g.live[pid] = w
	return w, nil
}

// whole returns a request that was too long for its message, and of which only the length was in it.
func whole(socket int, text []byte) ([]byte, error) {
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
		if err := poll([]waiting{{fd: int32(socket), events: pollIn}}, 5*time.Second); err != nil {
			return nil, fmt.Errorf("read a long request: %w", err)
		}
		n, _, err := syscall.Recvfrom(socket, part, syscall.MSG_DONTWAIT)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("read a long request: %w", errors.Join(err, errHostGone))
		}
		all = append(all, part[:n]...)
	}
	return all, nil
}

// childFiles are the descriptors as the command gets them.
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

// attr are the command's attributes with those that the tree needs.
func (r *request) attr(pidfd *int) *syscall.SysProcAttr {
	attr := r.Attr
	if attr == nil {
		attr = &syscall.SysProcAttr{}
	}
	attr.Chroot = r.Root
	attr.PidFD = pidfd
	attr.Pdeathsig = syscall.SIGKILL // should the guard itself be killed
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

// adopted waits for the orphans that have ended and returns the others. What one of them started may have become the guard's child after the guard looked:
// only where nothing was waited for since, which settled reports, are those all.
func (g *guard) adopted() (alive []int, settled bool) {
	for range 4 {
		if g.childless() {
			return nil, true
		}
		settled = true
		// Everything the guard starts, and everything it adopts, is its first thread's.
		alive = slices.DeleteFunc(childrenOfThread(g.pid, g.pid), func(pid int) bool {
			if _, leader := g.live[pid]; leader {
				return true
			}
			ended, err := syscall.Wait4(pid, nil, syscall.WNOHANG|syscall.WALL, nil)
			over := ended == pid || err != nil
			settled = settled && !over
			return over
		})
		if settled {
			break
		}
	}
	return alive, settled
}

// childless reports that the guard has no child at all, dead or alive.
func (g *guard) childless() bool {
	const all, exited, noHang, noWait = 0, 4, 1, 0x01000000
	var info [128]byte
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, all, 0, uintptr(unsafe.Pointer(&info)), exited|noHang|noWait, 0, 0)
	return errno == syscall.ECHILD
}

// orphansOf returns the adopted processes that are of the tree, and whether those are all. One with no mark that is known, because it set the limit that carries
// it, is told by its group and counted to the tree that is alone otherwise.
func (g *guard) orphansOf(w *ward) (alive []int, settled bool) {
	alive, settled = g.adopted()
	return slices.DeleteFunc(alive, func(pid int) bool { return !g.belongs(pid, w) }), settled
}

func (g *guard) belongs(pid int, w *ward) bool {
	switch m := markOf(pid); {
	case w.mark.covers(m):
		return true
	case m != 0:
		return len(g.wards) == 1 && !g.wasReleased(m)
	default:
		p, _ := look(pid)
		// A number stays taken while a group has it, also when its first process was waited for.
		return w.grouped && p.group == w.leader || len(g.wards) == 1
	}
}

func (g *guard) wasReleased(m mark) bool {
	return slices.ContainsFunc(g.left, func(left mark) bool { return left.covers(m) })
}
