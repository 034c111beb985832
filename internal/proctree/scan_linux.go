//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
)

// A process is what /proc says about one process.
type process struct {
	pid, parent int
	group       int
	state       byte
	startTicks  uint64 // clock ticks from boot to its start
}

func (p process) dead() bool    { return p.state == 'Z' || p.state == 'X' }
func (p process) stopped() bool { return p.state == 'T' || p.state == 't' }

// A processID names one process since boot, even if its PID was reused.
type processID struct {
	pid        int
	startTicks uint64
}

func (p process) id() processID { return processID{p.pid, p.startTicks} }

// readStat reads what /proc says about the process that has the PID now.
func readStat(pid int) (process, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	// The program's name is in parentheses and can hold any byte, so the fields are read after the last one.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 20 {
		return process{}, false
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	group, _ := strconv.Atoi(string(fields[2]))
	began, _ := strconv.ParseUint(string(fields[19]), 10, 64)
	return process{pid: pid, parent: parent, group: group, state: fields[0][0], startTicks: began}, true
}

// childrenOf returns the children of all threads of a process.
func childrenOf(pid int) []int {
	threads, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/task")
	if err != nil {
		return nil
	}
	if len(threads) == 1 {
		return childrenOfThread(pid, pid)
	}
	var all []int
	for _, thread := range threads {
		if id, err := strconv.Atoi(thread.Name()); err == nil {
			all = append(all, childrenOfThread(pid, id)...)
		}
	}
	return all
}

func childrenOfThread(pid, thread int) []int {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/task/" + strconv.Itoa(thread) + "/children")
	var all []int
	for field := range bytes.FieldsSeq(text) {
		if child, err := strconv.Atoi(string(field)); err == nil {
			all = append(all, child)
		}
	}
	return all
}

// A member is a process of a tree with an open pidfd, so that a signal cannot reach another process with the same PID.
type member struct {
	process
	fd int
}

// openMember opens the process that has the PID now, if it belongs. It opens the pidfd before it reads /proc, so that
// the process it checks is the one that the pidfd stands for. If that one has exited since, its pidfd reaches nobody.
func openMember(pid int, belongs func(process) bool) (member, bool) {
	fd, err := pidfdOpen(pid)
	if err != nil {
		return member{}, false
	}
	p, alive := readStat(pid)
	if !alive || !belongs(p) {
		_ = syscall.Close(fd)
		return member{}, false
	}
	return member{p, fd}, true
}

func (m member) close() { _ = syscall.Close(m.fd) }

// unreaped reports whether the process still exists, even as a zombie, so that its PID cannot be reused.
func (m member) unreaped() bool { return pidfdSignal(m.fd, 0) == nil }

// signal reports whether it reached the process. It does not reach one that has exited.
func (m member) signal(sig syscall.Signal) (bool, error) {
	err := pidfdSignal(m.fd, sig)
	if errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	return err == nil, err
}

// walkTree visits the living processes of a tree, parents first: the given ones and all their descendants. A child
// belongs if it has the mark. A process can change its limit, so a child of a member
// belongs too. The parent stays open, and so keeps its PID, until its children were checked.
func walkTree(m mark, first []member, visit func(member)) {
	for _, p := range first {
		if !p.dead() {
			visit(p)
		}
		var below []member
		for _, child := range childrenOf(p.pid) {
			held, ok := openMember(child, func(c process) bool {
				return m.covers(markOf(c.pid)) || c.parent == p.pid && p.unreaped()
			})
			if ok {
				below = append(below, held)
			}
		}
		p.close()
		walkTree(m, below, visit)
	}
}

// visitMarked visits all living processes of this machine that have the mark.
func visitMarked(m mark, visit func(member)) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !m.covers(markOf(pid)) {
			continue
		}
		if held, ok := openMember(pid, func(p process) bool { return m.covers(markOf(p.pid)) && !p.dead() }); ok {
			visit(held)
			held.close()
		}
	}
}
