//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"slices"
	"syscall"
	"time"
)

// A rest is what was released of a tree, as its host reaches it without the guard, which may have ended since. It is
// what has the tree's mark, what had none when it was released, and all below. What clears its mark after the release
// and then loses its parents is not found any more.
type rest struct {
	mark     mark
	unmarked []processID
}

// walk walks over what is alive.
func (r *rest) walk(w walk) (complete bool) {
	w.mark = r.mark
	first := markedPIDs(r.mark)
	for _, id := range r.unmarked {
		first = append(first, id.PID)
	}
	return w.fromThose(first, func(p process) bool {
		return slices.Contains(r.unmarked, p.id()) || r.mark.covers(markOf(p.pid))
	})
}

func (r *rest) signal(sig syscall.Signal) (int, error) {
	found := tell(sig, r.walk)
	return result(found.reached, found.missed())
}

// signalFirst has nobody to signal: a tree is released after its first process has exited.
func (r *rest) signalFirst(syscall.Signal) error { return ErrEnded }

func (r *rest) processes() ([]int, error) {
	all := tell(0, r.walk).alive()
	if len(all) == 0 {
		return nil, ErrEnded
	}
	return all, nil
}

// kill kills until nothing is left, or for lostBound: nobody else goes on with it.
func (r *rest) kill() error {
	for until := time.Now().Add(lostBound); ; time.Sleep(time.Millisecond) {
		found := tell(syscall.SIGKILL, r.walk)
		switch {
		case found.missed() > 0:
			return &MissedError{Processes: found.missed()}
		case found.reached == 0, time.Now().After(until):
			return nil
		}
	}
}

func (r *rest) release() error { return nil }

func (r *rest) survivors() (alive []int, known bool) { return nil, true }
