//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
)

// A mark tells the processes of one tree from all others. Its upper half names the tree that was started by a host that is in no other, its lower half is
// 0 there and names a tree within a tree otherwise: what a guarded command guards is part of it.
type mark uint64

const leafBits = 31

func (m mark) root() mark { return m >> leafBits }

// covers reports whether a process with the other mark is in the tree of this one.
func (m mark) covers(other mark) bool {
	if m == m.root()<<leafBits {
		return other.root() == m.root()
	}
	return other == m
}

// valid reports whether it can be a mark: the limit of a process that is in no tree is unlimited.
func (m mark) valid() bool { return m.root() > 0 && m>>(2*leafBits) == 0 }

// newMark returns a mark for a tree whose host has the given one.
func newMark(host mark) mark {
	half := func() mark { return mark(1 + rand.Uint64N(1<<leafBits-1)) }
	if host.valid() {
		return host.root()<<leafBits | half()
	}
	return half() << leafBits
}

// ownMark is the mark of this process.
func ownMark() mark { return markOf(os.Getpid()) }

// set gives this process the mark, for the children that it starts to inherit.
func (m mark) set() error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(rlimitLocks, &limit); err != nil {
		return fmt.Errorf("read the limit of file locks: %w", err)
	}
	if limit.Max < uint64(m) {
		return fmt.Errorf("mark the command: the hard limit of file locks is %d; raise it with ulimit -x unlimited", limit.Max)
	}
	limit.Cur = uint64(m)
	if err := syscall.Setrlimit(rlimitLocks, &limit); err != nil {
		return fmt.Errorf("mark the command by its limit of file locks: %w", err)
	}
	return nil
}

// markOf returns the mark of a process, 0 where it has none or is gone.
func markOf(pid int) mark {
	limit, err := lockLimit(pid)
	if err != nil {
		limit = lockLimitShown(pid)
	}
	if m := mark(limit); m.valid() {
		return m
	}
	return 0
}

var lockLine = []byte("Max file locks")

// lockLimitShown reads what /proc shows of processes of other users too.
func lockLimitShown(pid int) uint64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	if err != nil {
		return unlimited
	}
	_, rest, _ := bytes.Cut(text, lockLine)
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return unlimited
	}
	limit, err := strconv.ParseUint(string(fields[0]), 10, 64)
	if err != nil {
		return unlimited
	}
	return limit
}

// statusField returns one value of what /proc/PID/status shows.
func statusField(text []byte, field string) (string, bool) {
	for line := range bytes.Lines(text) {
		if name, value, ok := bytes.Cut(line, []byte{':'}); ok && string(name) == field {
			return string(bytes.TrimSpace(value)), true
		}
	}
	return "", false
}
