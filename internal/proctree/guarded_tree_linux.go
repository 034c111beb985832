//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"encoding/json"
	"slices"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/internal/tty"
)

const (
	// The guard checks again after shortestPause, about what a kill takes, and doubles the pause up to longestPause.
	shortestPause = 50 * time.Microsecond
	longestPause  = 20 * time.Millisecond
	// groupKillWait is how long a killed group gets before the guard looks at single processes.
	groupKillWait = 2 * time.Millisecond
	// survivorsPause is how often the guard checks after it has reported survivors: what outlived so many kills may stay
	// for days, and the guard must not be busy with it.
	survivorsPause = time.Second
	// maxListed is how many PIDs one report lists: they fit into one message.
	maxListed = 500
)

// A guardedTree is the guard's state of one tree. The leader is the tree's first process.
type guardedTree struct {
	guard   *guard
	mark    mark
	leader  int
	fd      int // the leader's pidfd, -1 once it was reaped
	socket  int
	grouped bool // whether the tree has its own process group, the leader's
	// startTicks is when the tree was started, or a tick before: no process of it is older.
	startTicks uint64
	terminal   int        // a terminal of the host that is set for the command, -1 for none
	modes      tty.Change // of the terminal
	releases   bool       // what is left is to be kept, unless something was signalled

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
		t.handleOrders()
		t.pause = shortestPause
	} else if !t.leaderExited && t.untilCheck() > 0 {
		return
	}
	exited := t.reapLeader()
	if t.killing {
		t.killRound()
	}
	gone := t.fd < 0 && (t.released || t.empty())
	r := report{Exited: exited, Gone: gone}
	if gone && t.releases {
		t.keep(&r)
	}
	if exited != nil || gone {
		t.send(r)
	}
	if gone {
		t.close()
		return
	}
	t.sendSurvivors()
	t.scheduleCheck()
}

// keep says in the last report what the tree leaves behind.
func (t *guardedTree) keep(r *report) {
	r.Kept = t.guard.keep(t)
	r.Released = t.released || len(r.Kept) > 0
}

// handleOrders receives and carries out the orders that have come. If the host is gone it kills the tree.
func (t *guardedTree) handleOrders() {
	orders := t.receiveOrders()
	for i, o := range orders {
		withdrawn := slices.ContainsFunc(orders[i:], func(later order) bool { return later.Withdraw })
		switch {
		case o.Kill:
			t.killing, t.killOrderedAt, t.releases = true, time.Now(), false
		case o.Release:
			t.release()
		case !withdrawn:
			t.obey(o)
		}
	}
}

// obey carries out an order that is answered.
func (t *guardedTree) obey(o order) {
	var found told
	switch {
	case o.First:
		found = t.signalFirst(o.Signal)
	case o.List:
		found = tell(0, t.walk)
		for part := range slices.Chunk(found.alive(), maxListed) {
			t.send(report{Listed: part})
		}
	default:
		t.releases = t.releases && o.Signal == 0
		hurry(func() { found = tell(o.Signal, t.walk) })
	}
	t.send(report{Answer: true, Reached: found.reached, Missed: found.missed()})
}

// receiveOrders returns all orders that have come, at least one. A host that is gone orders a kill.
func (t *guardedTree) receiveOrders() (all []order) {
	text := make([]byte, 4096)
	for more := true; more; more = isReady(t.socket, pollIn) {
		got, _, _, err := receive(t.socket, text, 0)
		var o order
		if err != nil || json.Unmarshal(got, &o) != nil {
			t.hostGone = true
			t.modes.Undo(t.terminal) // the host died before it could
			return append(all, order{Kill: true})
		}
		all = append(all, o)
	}
	return all
}

// release lets the other processes live on. It does nothing before the leader has exited, nor after a kill.
func (t *guardedTree) release() {
	if t.fd >= 0 || t.killing {
		return
	}
	t.released, t.releases = true, true
}

// claims reports whether an orphan with that mark is surely the tree's: it has the tree's mark, or has none and is in
// the tree's process group. While the group exists its ID stays taken, even after its leader was reaped.
func (t *guardedTree) claims(p process, m mark) bool {
	return t.mark.covers(m) || m == 0 && t.grouped && p.Group == t.leader
}

// youngerThan reports whether the process was there before the tree was started, and so is not of it.
func (t *guardedTree) youngerThan(p process) bool { return p.StartTicks < t.startTicks }

// reapLeader reaps the leader and returns how it exited. It returns nil if the leader is alive or already reaped.
func (t *guardedTree) reapLeader() *exitInfo {
	if t.fd < 0 {
		return nil
	}
	var e exitInfo
	if reaped, err := syscall.Wait4(t.leader, &e.Status, syscall.WNOHANG, &e.Used); reaped != t.leader && err == nil {
		return nil
	}
	_ = syscall.Close(t.fd)
	t.fd = -1
	delete(t.guard.leaders, t.leader)
	return &e
}

// empty reports whether the tree has no orphans left. With the leader reaped, nothing of the tree is then alive.
func (t *guardedTree) empty() bool {
	alive, complete := t.guard.orphansOf(t)
	return complete && len(alive) == 0
}

func (t *guardedTree) signalFirst(sig syscall.Signal) (found told) {
	if t.fd < 0 {
		return found
	}
	reached, err := member{process{pid: t.leader}, t.fd}.signal(sig)
	found.count(reached, err)
	return found
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
		hurry(func() {
			t.walk(walk{visit: func(m member) { _, _ = m.signal(syscall.SIGKILL) }, missed: func(int) {}})
		})
	}
}

// walk walks over every living process of the tree. It reports false if there may be others.
func (t *guardedTree) walk(w walk) (complete bool) {
	// No check is needed whether these belong: a child keeps its PID until the guard reaps it.
	first, complete := t.guard.orphansOf(t)
	if t.fd >= 0 {
		first = append([]int{t.leader}, first...)
	}
	w.mark = t.mark
	return w.from(first, anyProcess) && complete
}

// sendSurvivors reports, once, the processes that a kill did not end. What it cannot end is reported survivorsAfter the
// kill, but not before what is merely dying has ended or dyingBound has passed.
func (t *guardedTree) sendSurvivors() {
	if !t.killing || t.survivorsSent || time.Since(t.killOrderedAt) < survivorsAfter {
		return
	}
	alive, dying := aliveIn(t.walk)
	if t.survivorsSent = survived(time.Since(t.killOrderedAt), len(alive), dying); t.survivorsSent {
		t.send(report{Survivors: alive})
	}
}

// survived reports whether what is alive so long after a kill survived it.
func survived(since time.Duration, alive int, dying bool) bool {
	return alive > 0 && (since >= dyingBound || since >= survivorsAfter && !dying)
}

// scheduleCheck sets the next check of a tree whose leader has exited, or that is being killed.
func (t *guardedTree) scheduleCheck() {
	if !t.killing && t.fd >= 0 {
		return
	}
	pause := max(t.pause, shortestPause)
	t.pause = min(pause*2, longestPause)
	if t.survivorsSent {
		pause = survivorsPause
	}
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
	_ = sendJSON(t.socket, r) // receiveOrders notices a host that is gone
}

func (t *guardedTree) close() {
	_ = syscall.Close(t.socket)
	_ = syscall.Close(t.terminal)
	t.guard.trees = slices.DeleteFunc(t.guard.trees, func(other *guardedTree) bool { return other == t })
}
