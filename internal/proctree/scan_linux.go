//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"syscall"
)

// A process is one that was seen, as /proc tells of it.
type process struct {
	pid, parent int
	group       int
	state       byte
	began       uint64 // in ticks since the machine started: with the number it names the process
}

func (p process) dead() bool    { return p.state == 'Z' || p.state == 'X' }
func (p process) stopped() bool { return p.state == 'T' || p.state == 't' }

// A name tells a process from every other since the machine started.
type name struct {
	pid   int
	began uint64
}

func (p process) name() name { return name{p.pid, p.began} }

// look reads what /proc says of the process that has the number now.
func look(pid int) (process, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) // a program's name can hold anything but stands in brackets
	if len(fields) < 20 {
		return process{}, false
	}
	parent, _ := strconv.Atoi(string(fields[1]))
	group, _ := strconv.Atoi(string(fields[2]))
	began, _ := strconv.ParseUint(string(fields[19]), 10, 64)
	return process{pid: pid, parent: parent, group: group, state: fields[0][0], began: began}, true
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

// A member is a process of a tree, held so that its number cannot become another's while it is looked at and signalled.
type member struct {
	process
	fd int
}

// hold opens the process that has the number now if it is one that belongs: the descriptor comes first, so that what is
// verified afterwards is verified of the process that it stands for. (Had that one gone by then, its descriptor would reach nobody.)
func hold(pid int, belongs func(process) bool) (member, bool) {
	fd, err := pidfdOpen(pid)
	if err != nil {
		return member{}, false
	}
	p, alive := look(pid)
	if !alive || !belongs(p) {
		_ = syscall.Close(fd)
		return member{}, false
	}
	return member{p, fd}, true
}

func (m member) close() { _ = syscall.Close(m.fd) }

// unreaped reports that the process still has its number.
func (m member) unreaped() bool { return pidfdSignal(m.fd, 0) == nil }

// signal reports whether the process was reached. One that has ended is not.
func (m member) signal(sig syscall.Signal) (bool, error) {
	err := pidfdSignal(m.fd, sig)
	if errors.Is(err, syscall.ESRCH) {
		return false, nil
	}
	return err == nil, err
}

// descend visits the living processes of a tree: those given and everything below them, parents first. What belongs is told by the mark or, for a process
// that has another limit of its own, by its parent, which is held until its children were looked at.
func descend(m mark, first []member, visit func(member)) {
	for _, p := range first {
		if !p.dead() {
			visit(p)
		}
		var below []member
		for _, child := range childrenOf(p.pid) {
			held, ok := hold(child, func(c process) bool { return m.covers(markOf(c.pid)) || c.parent == p.pid && p.unreaped() })
			if ok {
				below = append(below, held)
			}
		}
		p.close()
		descend(m, below, visit)
	}
}

// everywhere visits all living processes of this machine that have the mark.
func everywhere(m mark, visit func(member)) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !m.covers(markOf(pid)) {
			continue
		}
		if held, ok := hold(pid, func(p process) bool { return m.covers(markOf(p.pid)) && !p.dead() }); ok {
			visit(held)
			held.close()
		}
	}
}
