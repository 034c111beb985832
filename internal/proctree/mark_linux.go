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

// A mark identifies the processes of one tree. Its upper half names the outermost tree. Its lower half is 0 for that
// tree, and names the tree if it is inside another one, because a guarded command started its host.
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

// valid reports whether it can be a mark. The limit of a process outside all trees is unlimited, and so not a mark.
func (m mark) valid() bool { return m.root() > 0 && m>>(2*leafBits) == 0 }

// newMark returns a mark for a new tree of a host with the given mark.
func newMark(host mark) mark {
	half := func() mark { return mark(1 + rand.Uint64N(1<<leafBits-1)) }
	if host.valid() {
		return host.root()<<leafBits | half()
	}
	return half() << leafBits
}

// set gives this process the mark. Its new children inherit it.
func (m mark) set() error {
	limit, err := limitOf(0, rlimitLocks)
	if err != nil {
		return fmt.Errorf("read the limit of file locks: %w", err)
	}
	if limit.Max < uint64(m) {
		return fmt.Errorf("mark the command: the hard limit of file locks is %d; raise it with ulimit -x unlimited",
			limit.Max)
	}
	limit.Cur = uint64(m)
	if err := syscall.Setrlimit(rlimitLocks, &limit); err != nil {
		return fmt.Errorf("mark the command by its limit of file locks: %w", err)
	}
	return nil
}

// markOf returns the mark of a process, 0 if it has none or is gone.
func markOf(pid int) mark {
	limit, err := limitOf(pid, rlimitLocks)
	if err != nil {
		limit.Cur = lockLimitFromProc(pid)
	}
	if m := mark(limit.Cur); m.valid() {
		return m
	}
	return 0
}

// lockLimitFromProc reads what /proc shows of processes of other users too. It returns 0 for no limit.
func lockLimitFromProc(pid int) uint64 {
	text, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	_, rest, _ := bytes.Cut(text, []byte("Max file locks"))
	soft, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte{' '})
	limit, _ := strconv.ParseUint(string(soft), 10, 64)
	return limit
}
