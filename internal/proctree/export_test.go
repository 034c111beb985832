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
	CheckProc   = checkProc
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
	complete = WalkAnd(m, func(pid int) { found = append(found, pid) }, first...)
	return found, complete
}

// WalkAnd walks from these and calls a function with the PID of each process that it finds.
func WalkAnd(m Mark, visit func(pid int), first ...int) (complete bool) {
	w := walk{mark: m, visit: func(m member) { visit(m.pid) }, missed: func(int) {}}
	return w.from(first)
}

// Belongs reports whether a walk visits a process that was listed as the child of the process with that PID and start
// time.
func Belongs(m Mark, pid, parent int, parentBegan uint64) bool {
	child, _ := readStat(pid)
	w := walk{mark: m}
	return w.belongs(child, process{pid: parent, startTicks: parentBegan})
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
