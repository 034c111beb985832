//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"cmp"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"syscall"
	"time"
	"unsafe"
)

// A process becomes the guard if it has this name, this variable, and a socket as descriptor guardSocket.
const (
	guardName     = "wdguard" // pkill watchdog does not match it
	guardVariable = "WATCHDOG_GUARD_PROCESS"
	guardSocket   = 3
)

// init turns the host's program, executed again, into the guard. It runs before main, and before most other packages of
// the program are initialized.
func init() {
	if len(os.Args) != 1 || os.Args[0] != guardName || os.Getenv(guardVariable) == "" {
		return
	}
	kind, err := syscall.GetsockoptInt(guardSocket, syscall.SOL_SOCKET, syscall.SO_TYPE)
	if err != nil || kind != syscall.SOCK_SEQPACKET {
		return
	}
	// The parent of a command is a thread. An initializer runs on the first one, which lives as long as the process.
	syscall.Exit(guardMain())
}

// A guard starts the commands of a host. It outlives the host until all their trees are gone.
//
// A single thread does all its work in sequence. So no PID of a child is reused while the guard looks at it, and no
// other thread has to wake up between the exit of a command and the report to the host.
type guard struct {
	pid       int
	leaders   map[int]*guardedTree // by PID; the first processes that are not reaped yet
	trees     []*guardedTree
	kept      []*keptTree    // that Release let go
	lockLimit syscall.Rlimit // the guard's own RLIMIT_LOCKS
	hostGone  bool
	fileLimit uint64 // how many descriptors it can have
	scheduler scheduler
	stops     stopActions // what a command has for them
	fds       []pollFD

	hostGroup int // the host's process group

	orphansReapedAt time.Time
	orphanDied      bool      // perhaps, since then
	keptLookDue     time.Time // when what was kept is looked at again, if a tree ends
}

// reapInterval is how often the guard reaps dead orphans of trees that live on, at most.
const reapInterval = time.Second

func guardMain() int {
	const setParentDeathSignal = 1
	if err := prctl(setParentDeathSignal, 0); err != nil { // the socket tells when the host is gone
		return 1
	}
	syscall.CloseOnExec(guardSocket)
	_ = os.Chdir("/") // so that the guard does not keep the host's directory busy
	_ = prctl(prSetName, uintptr(unsafe.Pointer(unsafe.StringData(guardName+"\x00"))))
	if err := prctl(prSetChildSubreaper, 1); err != nil {
		return 1
	}
	g := &guard{pid: os.Getpid(), leaders: map[int]*guardedTree{}, stops: ignoreSignals()}
	own, err := readScheduling()
	files, noFiles := limitOf(0, syscall.RLIMIT_NOFILE)
	var noLocks error
	if g.lockLimit, noLocks = limitOf(0, rlimitLocks); cmp.Or(err, noFiles, noLocks) != nil {
		return 1
	}
	g.fileLimit, g.scheduler.oom = files.Cur, own.OOM
	ready := report{Started: g.pid}
	if err := checkCalls(g.pid); err != nil {
		ready.Error = err.Error()
	}
	if err := sendJSON(guardSocket, ready); err != nil || ready.Error != "" {
		return 1
	}
	_ = json.Unmarshal([]byte(`{"scheduling":{}}`), new(request)) // the types, which are known then when one comes
	g.run()
	return 0
}

func (g *guard) run() {
	text := make([]byte, maxMessage)
	for !g.hostGone || len(g.trees) > 0 {
		requested := g.wait()
		if requested {
			g.receiveRequest(text)
		}
		for _, t := range slices.Clone(g.trees) {
			t.serve()
		}
		if g.untilReap() == 0 {
			g.orphansReapedAt, g.orphanDied = time.Now(), false
			g.reapOrphans()
			g.lookAtKept()
		}
	}
}

// wait waits until there is something to do, and reports whether there is a request from the host.
//
// It does not wake up at intervals. An orphan that dies sends SIGCHLD, which ends the wait, but not a wait that begins
// after it. So an orphan may have died at any event, and one that dies just after they were reaped stays until the
// next.
func (g *guard) wait() (requested bool) {
	g.fds = g.fds[:0]
	g.addPollFD(guardSocket, g.hostGone)
	timeout := g.untilReap()
	for _, t := range g.trees {
		g.addPollFD(t.fd, t.fd < 0)
		g.addPollFD(t.socket, t.hostGone)
		if !t.nextCheck.IsZero() && (timeout < 0 || t.untilCheck() < timeout) {
			timeout = t.untilCheck()
		}
	}
	if err := pollOnce(g.fds, timeout); err != nil && !errors.Is(err, syscall.EINTR) {
		time.Sleep(longestPause) // out of memory
	}
	g.orphanDied = true
	for i, t := range g.trees {
		t.leaderExited, t.hasOrder = g.fds[1+2*i].ready(), g.fds[2+2*i].ready()
	}
	return g.fds[0].ready()
}

// untilReap returns how long until dead orphans have to be reaped, -1 if there are none. What was kept is looked at
// then, too, and as long as commands run beside it that is always due.
func (g *guard) untilReap() time.Duration {
	died := g.orphanDied && len(g.trees)+len(g.kept) > 0
	if beside := len(g.trees) > 0 && len(g.kept) > 0; !died && !beside {
		return -1
	}
	return max(time.Until(g.orphansReapedAt.Add(reapInterval)), 0)
}

// addPollFD adds a descriptor to those that wait polls, or a placeholder that never becomes ready.
func (g *guard) addPollFD(fd int, skip bool) {
	if skip {
		fd = -1
	}
	g.fds = append(g.fds, pollFD{fd: int32(fd), events: pollIn})
}

// reapOrphans reaps the dead orphans and returns the living ones. A process that one of them started can become the
// guard's child after the guard read its list of children. So the list is complete only if nothing was reaped, and the
// caller that needs a complete one tries again.
func (g *guard) reapOrphans() (alive []int, complete bool) {
	if _, err := lookAtChild(anyPID, 0, childExited); errors.Is(err, syscall.ECHILD) {
		return nil, true
	}
	// All children, started or adopted, belong to the guard's first thread.
	children, err := childrenOfThread(g.pid, g.pid)
	complete = err == nil
	for _, pid := range children {
		if _, leader := g.leaders[pid]; leader {
			continue
		}
		if dead, err := lookAtChild(onePID, pid, childExited); dead == 0 && err == nil {
			alive = append(alive, pid)
			continue
		}
		unhurried(func() { _, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil) })
		complete = false
	}
	return alive, complete
}

// orphansOf returns the living orphans of a tree, and whether the list is complete.
func (g *guard) orphansOf(t *guardedTree) (alive []int, complete bool) {
	if time.Now().After(g.keptLookDue) {
		g.lookAtKept()
	}
	alive, complete = g.reapOrphans()
	return slices.DeleteFunc(alive, func(pid int) bool { return !g.belongs(pid, t) }), complete
}

// belongs reports whether an orphan belongs to the tree. An orphan that changed its RLIMIT_LOCKS has no known mark. It
// belongs to the tree whose process group it is in, or to the only tree if there is one, unless it was kept.
func (g *guard) belongs(pid int, t *guardedTree) bool {
	m := markOf(pid)
	if t.mark.covers(m) {
		return true
	}
	p, err := readStat(pid)
	if err != nil {
		return len(g.trees) == 1 && len(g.kept) == 0
	}
	return t.claims(p, m) || len(g.trees) == 1 && g.keptTreeOf(p, m) == nil
}
