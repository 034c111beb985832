//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

func (p process) stopped() bool {
	if !p.MainThreadEnded() {
		return p.State == 'T' || p.State == 't'
	}
	return slices.ContainsFunc(idsIn(procPath(p.pid, "task")), func(thread int) bool {
		t, err := readStatFile(p.pid, procPath(p.pid, "task", strconv.Itoa(thread), "stat"))
		return err == nil && (t.State == 'T' || t.State == 't')
	})
}

// A processID names one process since boot, even if its PID was reused.
type processID struct {
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"start"`
}

func (p process) id() processID { return processID{p.pid, p.StartTicks} }

// exists reports whether the process still exists, even as a zombie. A PID cannot be reused within one clock tick.
func (id processID) exists() bool {
	now, err := readStat(id.PID)
	return err == nil && now.id() == id
}

// ticksNow returns the present as the start time of a process would show it.
func ticksNow() uint64 {
	const bootTime, ticksPerSecond = 7, 100 // the same on all architectures
	var now syscall.Timespec
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, bootTime, uintptr(unsafe.Pointer(&now)), 0)
	return uint64(now.Nano()) / uint64(time.Second/ticksPerSecond)
}

// hasEnded reports whether an error says that there is no such process any more.
func hasEnded(err error) bool {
	return errors.Is(err, syscall.ESRCH) || errors.Is(err, fs.ErrNotExist)
}

// childrenOf returns the children of all threads of a process. It returns an error if it is unknown which those are.
func childrenOf(p process) ([]int, error) {
	if p.Threads <= 1 {
		return childrenOfThread(p.pid, p.pid)
	}
	var all []int
	for _, thread := range idsIn(procPath(p.pid, "task")) {
		children, err := childrenOfThread(p.pid, thread)
		if err != nil {
			return nil, err
		}
		all = append(all, children...)
	}
	return all, nil
}

func childrenOfThread(pid, thread int) ([]int, error) {
	text, err := readFileAt(atCurrentFolder, procPath(pid, "task", strconv.Itoa(thread), "children"))
	if err != nil && !hasEnded(err) {
		return nil, err
	}
	var all []int
	for field := range bytes.FieldsSeq(text) {
		if child, err := strconv.Atoi(string(field)); err == nil {
			all = append(all, child)
		}
	}
	return all, nil
}

// A member is a process of a tree with an open pidfd, so that a signal cannot reach another process with the same PID.
type member struct {
	process
	fd int
}

// errStranger is returned by openMember for a process that does not belong.
var errStranger = errors.New("not a process of the tree")

// openMember opens the process that has the PID now, if it belongs. It opens the pidfd before it reads /proc, so that
// the process it checks is the one that the pidfd stands for. If that one has exited since, its pidfd reaches nobody.
func openMember(pid int, belongs func(process) bool) (member, error) {
	pidfd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return member{}, errno
	}
	fd := int(pidfd)
	p, err := readStat(pid)
	if err == nil && !belongs(p) {
		err = errStranger
	}
	if err != nil {
		_ = syscall.Close(fd)
		return member{}, err
	}
	return member{p, fd}, nil
}

func (m member) close() { _ = syscall.Close(m.fd) }

// signal reports whether it reached the process. It does not reach one that has exited.
func (m member) signal(sig syscall.Signal) (bool, error) {
	err := failed(syscall.Syscall6(sysPidfdSendSignal, uintptr(m.fd), uintptr(sig), 0, 0, 0, 0))
	if errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	return err == nil, err
}

// canDie reports whether SIGKILL ends the process once it gets a processor. It does not end one of another user, nor
// one that waits for a disk.
func (m member) canDie() bool {
	_, err := m.signal(0)
	return err == nil && m.State != 'D'
}

// signalAndContinue also continues a stopped process, because that would not act on the signal. One that is to be
// stopped stays so.
func (m member) signalAndContinue(sig syscall.Signal) (bool, error) {
	reached, err := m.signal(sig)
	if reached && sig != 0 && sig != syscall.SIGSTOP && m.stopped() {
		_, _ = m.signal(syscall.SIGCONT)
	}
	return reached, err
}

// A walk visits the living processes of a tree. It holds one pidfd at a time, and remembers the others by their PID and
// start time: a tree can have more processes than the host may have descriptors.
type walk struct {
	mark  mark
	visit func(member)
	// missed is called with the PID of a process that could not be looked at, or whose children could not be.
	missed func(pid int)
	// known holds what an earlier walk visited, by PID. The walk looks only below them.
	known map[int]process
	// ended holds the PIDs of dead processes that earlier walks met. What another one had started may have moved to the
	// guard after the orphans were listed, so a walk that meets one is not complete.
	ended   map[int]bool
	changed bool
	visited map[processID]bool // by this walk
}

// from visits those of the given processes that belong, whose PIDs may have been reused, and all their descendants,
// parents first. It reports false if it did not look below processes that were started after it began, because a tree
// can start them faster than it looks.
func (w *walk) from(first []int, belong func(process) bool) (complete bool) {
	began := ticksNow()
	complete, w.visited = true, map[processID]bool{}
	queue := w.enter(nil, first, belong)
	for len(queue) > 0 {
		parent := queue[0]
		if parent.StartTicks > began {
			complete, queue = false, queue[1:]
			continue
		}
		children, err := childrenOf(parent)
		if err != nil {
			w.missed(parent.pid)
		}
		queue = w.enter(queue[1:], children, func(child process) bool {
			return w.belongs(child, parent)
		})
	}
	return complete && !w.changed
}

func anyProcess(process) bool { return true }

// belongs reports whether a process that was listed as the child of a member belongs. It does if it has the mark. A
// process can change its limit, so a child of a member belongs too, if the member exists after the child was opened.
//
// The mark spares a look at the parent, and finds a child in this round whose parent has just ended: without it the
// next round would, among the orphans. That the parent exists matters if both PIDs were reused since the list was read.
func (w *walk) belongs(child, parent process) bool {
	return w.mark.covers(markOf(child.pid)) || child.Parent == parent.pid && parent.id().exists()
}

// enter visits those of the processes that belong and are alive, and appends them to the queue.
func (w *walk) enter(queue []process, pids []int, belongs func(process) bool) []process {
	for _, pid := range pids {
		if p, ok := w.known[pid]; ok {
			queue = append(queue, p)
			continue
		}
		m, err := openMember(pid, belongs)
		switch {
		case err == nil:
			switch {
			case m.Dead():
				w.meetDead(pid)
			case !w.visited[m.id()]: // the child of a thread that ends is listed again as another thread's
				w.visited[m.id()] = true
				w.visit(m)
				queue = append(queue, m.process)
			}
			m.close()
		case hasEnded(err):
			w.meetDead(pid)
		case !errors.Is(err, errStranger):
			w.missed(pid)
		}
	}
	return queue
}

func (w *walk) meetDead(pid int) {
	if w.ended != nil && !w.ended[pid] {
		w.ended[pid], w.changed = true, true
	}
}

// markedPIDs returns the PIDs of the processes of this machine that have the mark.
func markedPIDs(m mark) []int {
	others := func(pid int) bool { return !m.covers(markOf(pid)) }
	return slices.DeleteFunc(idsIn("/proc"), others) // there is no other way to find them
}

// lostBound is how long processes get to die whose guard did not end them. A busy machine may take long.
const lostBound = 5 * time.Second

// killMarked kills the processes with the mark but one, wherever they are, until there are none. PID 0 spares none.
func killMarked(m mark, spared int) {
	until := time.Now().Add(lostBound)
	for alive := true; alive && time.Now().Before(until); time.Sleep(time.Millisecond) {
		alive = false
		for _, pid := range markedPIDs(m) {
			// The mark is read again, because the PID may have been reused since.
			held, err := openMember(pid, func(p process) bool { return m.covers(markOf(pid)) && !p.Dead() })
			if err != nil {
				continue
			}
			if pid != spared {
				_, _ = held.signal(syscall.SIGKILL)
				alive = true
			}
			held.close()
		}
	}
}
