//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"maps"
	"slices"
	"syscall"
	"time"
)

// signalRounds is how often a signal looks, at most, for processes that were started meanwhile: a tree can start them
// as fast as they are found.
const signalRounds = 4

// A told is what became of a signal to the processes of a tree.
type told struct {
	visited map[int]process // by PID
	unread  map[int]bool    // the PIDs of those that could not be looked at
	reached int
	failed  int // could not be signalled
}

// tell sends a signal once to each living process that a walk finds. Signal 0 only finds them.
func tell(sig syscall.Signal, walkOver func(walk) (complete bool)) told {
	t, ended := told{visited: map[int]process{}}, map[int]bool{}
	for range signalRounds {
		found := map[int]process{}
		t.unread = map[int]bool{}
		complete := walkOver(walk{known: t.visited, ended: ended, visit: func(m member) {
			reached, err := m.signalAndContinue(sig)
			t.count(reached, err)
			found[m.pid] = m.process
		}, missed: func(pid int) { t.unread[pid] = true }})
		maps.Copy(t.visited, found)
		if complete && len(found) == 0 {
			break
		}
	}
	return t
}

func (t *told) count(reached bool, err error) {
	switch {
	case reached:
		t.reached++
	case err != nil:
		t.failed++
	}
}

// missed returns how many live that the signal could not reach.
func (t told) missed() int { return t.failed + len(t.unread) }

// alive returns the PIDs of those that were found, in order.
func (t told) alive() []int {
	all := slices.AppendSeq(slices.Collect(maps.Keys(t.visited)), maps.Keys(t.unread))
	slices.Sort(all)
	return slices.Compact(all)
}

// aliveIn returns the PIDs of what a walk finds, and whether some of it is dying.
func aliveIn(walkOver func(walk) (complete bool)) (alive []int, dying bool) {
	add := func(pid int) { alive = append(alive, pid) }
	walkOver(walk{visit: func(m member) {
		add(m.pid)
		dying = dying || m.canDie()
	}, missed: add})
	return alive, dying
}

// result is what a signal to a tree returns.
func result(reached, missed int) (int, error) {
	switch {
	case missed > 0:
		return reached, &MissedError{Processes: missed}
	case reached == 0:
		return 0, ErrEnded
	default:
		return reached, nil
	}
}

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
	return w.from(first, func(p process) bool {
		return slices.Contains(r.unmarked, p.id()) || r.mark.covers(markOf(p.pid))
	})
}

func (r *rest) signal(sig syscall.Signal) (int, error) {
	found := tell(sig, r.walk)
	return result(found.reached, found.missed())
}

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
