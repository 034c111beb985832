//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"context"
	"os"
	"syscall"
	"time"

	"github.com/seed62658d38/watchdog/internal/procid"
)

// What the external tests need of the inside.
type Mark = mark

var (
	Covers   = mark.covers
	NewMark  = newMark
	MarkOf   = markOf
	Survived = survived

	CheckProc   = checkProc
	ReadMessage = readMessage
	ReadFileAt  = readFileAt
)

// MaxListed is how many PIDs one report of the guard lists.
const MaxListed = maxListed

// AnswerGrace is how long a start whose context has ended waits for a guard that runs.
const AnswerGrace = answerGrace

// StartTicks returns the start time of the process that has the PID now.
func StartTicks(pid int) uint64 {
	p, _ := readStat(pid)
	return p.StartTicks
}

// ParentOf returns the PID of the parent of a process, and 0 of one that does not exist.
func ParentOf(pid int) int {
	p, _ := readStat(pid)
	return p.Parent
}

// Walk returns the PIDs of the processes that a walk from these finds.
func Walk(m Mark, first ...int) (found []int, complete bool) {
	complete = WalkAnd(m, func(pid int) { found = append(found, pid) }, first...)
	return found, complete
}

// WalkAnd walks from these and calls a function with the PID of each process that it finds.
func WalkAnd(m Mark, visit func(pid int), first ...int) (complete bool) {
	w := walk{mark: m, visit: func(m member) { visit(m.pid) }, missed: func(int) {}}
	return w.from(first, anyProcess)
}

// Rounds returns how often a signal looks at a tree of which so many looks find a process that was started meanwhile.
func Rounds(finds int) (rounds int) {
	tell(0, func(w walk) (complete bool) {
		if rounds++; rounds <= finds {
			w.visit(member{process{pid: rounds}, -1})
		}
		return true
	})
	return rounds
}

// Belongs reports whether a walk visits a process that was listed as the child of the process with that PID and start
// time.
func Belongs(m Mark, pid, parent int, parentBegan uint64) bool {
	child, _ := readStat(pid)
	w := walk{mark: m}
	return w.belongs(child, process{parent, procid.Stat{StartTicks: parentBegan}})
}

// SetIdleBounds changes how long a guard without commands lives: the latest, and any other. The result sets them back.
func SetIdleBounds(latest, other time.Duration) (restore func()) {
	set := func(latest, other time.Duration) {
		theGuards.mu.Lock()
		defer theGuards.mu.Unlock()
		idleBound, otherIdleBound = latest, other
		theGuards.endIdle()
	}
	latestBefore, otherBefore := idleBound, otherIdleBound
	set(latest, other)
	return func() { set(latestBefore, otherBefore) }
}

// SetStartBound changes how long Start waits, before the first start of a process.
func SetStartBound(bound time.Duration) { startBound, errNoAnswer = bound, noAnswerWithin(bound) }

// StartBound returns how long Start waits.
func StartBound() time.Duration { return startBound }

// SignalLate signals a tree without processes, whose guard answers after a time that it reached one.
func SignalLate(sig syscall.Signal, after time.Duration) (int, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return 0, err
	}
	defer syscall.Close(theirs)
	c := newGuardConn(newGuardClient(&theGuards, ""), ours, newMark(0))
	defer c.socket.Close()
	time.AfterFunc(after, func() { c.answers <- report{Answer: true, Reached: 1} })
	return c.signal(sig)
}

// AwaitAnswer waits for the answer to a start of a guard that has sent this; nothing if it is empty.
func AwaitAnswer(ctx context.Context, guard int, sent string) error {
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer syscall.Close(theirs)
	if sent != "" {
		if err := send(theirs, []byte(sent), 0); err != nil {
			return err
		}
	}
	client := newGuardClient(&theGuards, "")
	client.process, _ = os.FindProcess(guard)
	close(client.ready)
	c := newGuardConn(client, ours, newMark(0))
	defer c.socket.Close()
	_, err = c.readAnswer(ctx)
	return err
}

// A KeptTree is what a guard remembers of a released tree.
type KeptTree struct{ kept keptTree }

func NewKeptTree(m Mark) *KeptTree {
	return &KeptTree{keptTree{mark: m, members: map[processID]process{}}}
}

// Look looks at the orphans and returns how many processes are remembered, and whether the tree can be forgotten.
func (k *KeptTree) Look(orphans ...int) (members int, empty bool) {
	empty = k.kept.look(orphans)
	return len(k.kept.members), empty
}
