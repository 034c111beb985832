//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"encoding/json"
	"slices"
	"syscall"
	"time"
)

// How long the guard waits before it looks again whether a tree is gone: at first as long as a kill takes.
const (
	shortestPause = 50 * time.Microsecond
	longestPause  = 20 * time.Millisecond
	// dying is how long a group that was killed is left to it.
	dying = 2 * time.Millisecond
	// lasting is how long a kill may take before what resists it is told.
	lasting = 500 * time.Millisecond
)

// A ward is a tree as the guard sees it.
type ward struct {
	guard   *guard
	mark    mark
	leader  int
	fd      int // of the leader, -1 once it was waited for
	socket  int
	grouped bool // the leader's group is the tree's

	ended, told bool // its leader and its host, as the last wait found
	pause       time.Duration
	lookAt      time.Time // again, where nothing tells

	killing, released, orphaned bool
	killedAt                    time.Time
	struck                      time.Time // the group
	complained                  bool      // of survivors
}

// serve carries out what is to be done now. A tree of which nothing is left is served no more.
func (w *ward) serve() {
	if w.told {
		w.heed()
		w.pause = shortestPause
	} else if !w.ended && w.patience() > 0 {
		return
	}
	ended := w.reap()
	if w.killing {
		w.killRound()
	}
	gone := w.fd < 0 && (w.released || w.empty())
	if ended != nil || gone {
		w.tell(news{Exited: ended, Gone: gone})
	}
	if gone {
		w.end()
		return
	}
	w.tellOfSurvivors()
	w.rest()
}

// rest says when to look again at a tree whose leader has ended or that is being killed.
func (w *ward) rest() {
	if !w.killing && w.fd >= 0 {
		return
	}
	most := max(w.pause, shortestPause)
	w.pause = min(most*2, longestPause)
	if w.fd >= 0 && time.Since(w.struck) < dying { // its descriptor tells
		most = dying
	}
	w.lookAt = time.Now().Add(most)
}

// patience is how long the guard may wait before it looks at the tree again without having been told to.
func (w *ward) patience() time.Duration {
	if w.lookAt.IsZero() {
		return tidying
	}
	return max(time.Until(w.lookAt), 0)
}

// heed takes one order.
func (w *ward) heed() {
	text, _, err := hear(w.socket, make([]byte, 4096), 0)
	var o order
	if err != nil || json.Unmarshal(text, &o) != nil { // the host is gone
		o.Kill, w.orphaned = true, true
	}
	switch {
	case o.Kill:
		w.killing, w.killedAt = true, time.Now()
	case o.Release:
		w.release()
	default:
		w.tell(news{Answer: true, Reached: w.signal(o.Signal)})
	}
}

// release lets the rest of a tree live whose leader has ended.
func (w *ward) release() {
	if w.fd >= 0 {
		return
	}
	w.released = true
	w.guard.left = append(w.guard.left, w.mark)
}

// reap waits for the leader if it has ended, and returns how.
func (w *ward) reap() *ending {
	if w.fd < 0 {
		return nil
	}
	var status syscall.WaitStatus
	var used syscall.Rusage
	if ended, err := syscall.Wait4(w.leader, &status, syscall.WNOHANG, &used); ended != w.leader && err == nil {
		return nil
	}
	_ = syscall.Close(w.fd)
	w.fd = -1
	delete(w.guard.live, w.leader)
	return endingOf(status, &used)
}

// empty reports that the leader's orphans are gone too, and so everything.
func (w *ward) empty() bool {
	alive, settled := w.guard.orphansOf(w)
	return settled && len(alive) == 0
}

// signal sends a signal to everything alive, once each, also to what was started meanwhile; but not for ever, because a tree can go on
// starting what the signal ends.
func (w *ward) signal(sig syscall.Signal) int {
	const rounds = 4
	reached := map[name]bool{}
	for before, round := -1, 0; before < len(reached) && round < rounds; round++ {
		before = len(reached)
		w.visit(func(m member) {
			if reached[m.name()] {
				return
			}
			if ok, _ := m.signal(sig); ok {
				reached[m.name()] = true
			}
			if m.stopped() && sig != 0 { // or the signal would wait
				_, _ = m.signal(syscall.SIGCONT)
			}
		})
	}
	return len(reached)
}

// killRound kills what is alive now. What it starts meanwhile is for the next round. The first leaves it at the group where there is one: that is one call, and
// mostly all of it; looking at each process while they die would take longer than they do.
func (w *ward) killRound() {
	switch {
	case w.struck.IsZero() && w.fd >= 0 && w.grouped: // not waited for: the group is the tree's
		w.struck = time.Now()
		_ = syscall.Kill(-w.leader, syscall.SIGKILL)
	case time.Since(w.struck) > dying:
		w.visit(func(m member) { _, _ = m.signal(syscall.SIGKILL) })
	}
}

// visit visits everything that is alive of the tree.
func (w *ward) visit(visit func(member)) {
	var first []member
	if w.fd >= 0 {
		if m, ok := hold(w.leader, func(process) bool { return true }); ok {
			first = append(first, m)
		}
	}
	orphans, _ := w.guard.orphansOf(w)
	for _, pid := range orphans {
		if m, ok := hold(pid, func(process) bool { return true }); ok { // the guard's children keep their numbers until it waits for them
			first = append(first, m)
		}
	}
	descend(w.mark, first, visit)
}

// tellOfSurvivors tells the host, once, what a kill did not end in time.
func (w *ward) tellOfSurvivors() {
	if !w.killing || w.complained || time.Since(w.killedAt) < lasting {
		return
	}
	w.complained = true
	var alive []int
	w.visit(func(m member) { alive = append(alive, m.pid) })
	w.tell(news{Survivors: alive})
}

func (w *ward) tell(n news) {
	if w.orphaned {
		return
	}
	_ = tell(w.socket, n) // a host that is gone is noticed when it is read from
}

func (w *ward) end() {
	_ = syscall.Close(w.socket)
	w.guard.wards = slices.DeleteFunc(w.guard.wards, func(other *ward) bool { return other == w })
}
