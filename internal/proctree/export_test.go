//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import "time"

// What the external tests need of the inside.
type Mark = mark

var (
	Covers  = mark.covers
	NewMark = newMark
	MarkOf  = markOf
	Repeat  = repeat

	ProcOptions = procOptions
)

// Exists reports whether the process with that PID and start time still exists.
func Exists(pid int, startTicks uint64) bool { return processID{pid, startTicks}.exists() }

// StartTicks returns the start time of the process that has the PID now.
func StartTicks(pid int) uint64 {
	p, _ := readStat(pid)
	return p.startTicks
}

// Walk returns the PIDs of the processes that a walk from these finds.
func Walk(m Mark, first ...int) (found []int, complete bool) {
	w := walk{mark: m, visit: func(m member) { found = append(found, m.pid) }, missed: func(int) {}}
	complete = w.from(first)
	return found, complete
}

// SetIdleBound changes how long a guard without commands lives. The result sets it back.
func SetIdleBound(d time.Duration) (restore func()) {
	set := func(d time.Duration) {
		theGuards.mu.Lock()
		defer theGuards.mu.Unlock()
		idleBound = d
		theGuards.endIdleLocked()
	}
	before := idleBound
	set(d)
	return func() { set(before) }
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
