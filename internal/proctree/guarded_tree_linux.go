//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"encoding/json"
	"slices"
	"syscall"
	"time"
)

const (
	// The guard checks again after shortestPause, about what a kill takes, and doubles the pause up to longestPause.
	shortestPause = 50 * time.Microsecond
	longestPause  = 20 * time.Millisecond
	// groupKillWait is how long a killed group gets before the guard looks at single processes.
	groupKillWait = 2 * time.Millisecond
	// survivorsAfter is how long a kill may take before the guard reports the survivors.
	survivorsAfter = 500 * time.Millisecond
)

// A guardedTree is the guard's state of one tree. The leader is the tree's first process.
type guardedTree struct {
	guard   *guard
	mark    mark
	leader  int
	fd      int // the leader's pidfd, -1 once it was reaped
	socket  int
	grouped bool // whether the tree has its own process group, the leader's

	leaderExited, hasOrder bool // as of the last poll
	pause                  time.Duration
	nextCheck              time.Time // zero if no check is due before the next event

	killing, released, hostGone bool
	killOrderedAt               time.Time
	groupKilledAt               time.Time
	survivorsSent               bool
}

// serve does what is due now. It removes a tree of which nothing is left.
func (t *guardedTree) serve() {
	if t.hasOrder {
		t.handleOrder()
		t.pause = shortestPause
	} else if !t.leaderExited && t.untilCheck() > 0 {
		return
	}
	exited := t.reapLeader()
	if t.killing {
		t.killRound()
	}
	gone := t.fd < 0 && (t.released || t.empty())
	if exited != nil || gone {
		t.send(report{Exited: exited, Gone: gone})
	}
	if gone {
		t.close()
		return
	}
	t.sendSurvivors()
	t.scheduleCheck()
}

// handleOrder receives and carries out one order. If the host is gone it kills the tree.
func (t *guardedTree) handleOrder() {
	text, _, _, err := receive(t.socket, make([]byte, 4096), 0)
	var o order
	if err != nil || json.Unmarshal(text, &o) != nil {
		o.Kill, t.hostGone = true, true
	}
	switch {
	case o.Kill:
		t.killing, t.killOrderedAt = true, time.Now()
	case o.Release:
		t.release()
	default:
		t.send(report{Answer: true, Reached: t.signal(o.Signal)})
	}
}

// release lets the other processes live on. It does nothing before the leader has exited.
func (t *guardedTree) release() {
	if t.fd >= 0 {
		return
	}
	t.released = true
	t.guard.released = append(t.guard.released, t.mark)
}

// reapLeader reaps the leader and returns how it exited. It returns nil if the leader is alive or already reaped.
func (t *guardedTree) reapLeader() *exitInfo {
	if t.fd < 0 {
		return nil
	}
	var status syscall.WaitStatus
	var used syscall.Rusage
	if reaped, err := syscall.Wait4(t.leader, &status, syscall.WNOHANG, &used); reaped != t.leader && err == nil {
		return nil
	}
	_ = syscall.Close(t.fd)
	t.fd = -1
	delete(t.guard.leaders, t.leader)
	return newExitInfo(status, &used)
}

// empty reports whether the tree has no orphans left. With the leader reaped, nothing of the tree is then alive.
func (t *guardedTree) empty() bool {
	alive, complete := t.guard.orphansOf(t)
	return complete && len(alive) == 0
}

// signal sends a signal once to every living process, and returns how many it reached. It repeats for processes that
// were started meanwhile, but only a few times, because a tree can start new processes as fast as the signal ends them.
func (t *guardedTree) signal(sig syscall.Signal) int {
	const rounds = 4
	reached := map[processID]bool{}
	for before, round := -1, 0; before < len(reached) && round < rounds; round++ {
		before = len(reached)
		t.visit(func(m member) {
			if reached[m.id()] {
				return
			}
			if ok, _ := m.signal(sig); ok {
				reached[m.id()] = true
			}
			if m.stopped() && sig != 0 { // a stopped process would not act on the signal
				_, _ = m.signal(syscall.SIGCONT)
			}
		})
	}
	return len(reached)
}

// killRound kills the processes alive now; the next round kills those they start meanwhile. If the tree has its own
// group, the first round only kills that group: it is one call, and it mostly ends the whole tree sooner than the guard
// could look at each process.
func (t *guardedTree) killRound() {
	switch {
	case t.groupKilledAt.IsZero() && t.fd >= 0 && t.grouped: // the leader is not reaped, so the group is still the tree's
		t.groupKilledAt = time.Now()
		_ = syscall.Kill(-t.leader, syscall.SIGKILL)
	case time.Since(t.groupKilledAt) > groupKillWait:
		t.visit(func(m member) { _, _ = m.signal(syscall.SIGKILL) })
	}
}

// visit calls visit for every living process of the tree.
func (t *guardedTree) visit(visit func(member)) {
	var first []member
	if t.fd >= 0 {
		if m, ok := openMember(t.leader, func(process) bool { return true }); ok {
			first = append(first, m)
		}
	}
	orphans, _ := t.guard.orphansOf(t)
	for _, pid := range orphans {
		// No further check is needed: a child keeps its PID until the guard reaps it.
		if m, ok := openMember(pid, func(process) bool { return true }); ok {
			first = append(first, m)
		}
	}
	walkTree(t.mark, first, visit)
}

// sendSurvivors reports, once, the processes that a kill did not end within survivorsAfter.
func (t *guardedTree) sendSurvivors() {
	if !t.killing || t.survivorsSent || time.Since(t.killOrderedAt) < survivorsAfter {
		return
	}
	t.survivorsSent = true
	var alive []int
	t.visit(func(m member) { alive = append(alive, m.pid) })
	t.send(report{Survivors: alive})
}

// scheduleCheck sets the next check of a tree whose leader has exited, or that is being killed.
func (t *guardedTree) scheduleCheck() {
	if !t.killing && t.fd >= 0 {
		return
	}
	pause := max(t.pause, shortestPause)
	t.pause = min(pause*2, longestPause)
	if t.fd >= 0 && time.Since(t.groupKilledAt) < groupKillWait { // the leader's pidfd wakes the guard earlier
		pause = groupKillWait
	}
	t.nextCheck = time.Now().Add(pause)
}

// untilCheck returns how long the guard may wait for an event before it checks the tree again.
func (t *guardedTree) untilCheck() time.Duration {
	if t.nextCheck.IsZero() {
		return reapInterval
	}
	return max(time.Until(t.nextCheck), 0)
}

func (t *guardedTree) send(r report) {
	if t.hostGone {
		return
	}
	_ = sendJSON(t.socket, r) // handleOrder notices a host that is gone
}

func (t *guardedTree) close() {
	_ = syscall.Close(t.socket)
	t.guard.trees = slices.DeleteFunc(t.guard.trees, func(other *guardedTree) bool { return other == t })
}
