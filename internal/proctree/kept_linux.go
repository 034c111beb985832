//go:build linux && !386 && !arm && !mips && !mipsle && !mips64 && !mips64le

package proctree

import (
	"maps"
	"slices"
	"time"
)

// A keptTree is what the guard remembers of a tree that Release let go, so that no other tree takes a process of it for
// its own orphan.
//
// The mark finds most of its processes. A process that cleared its mark is found by what the guard saw of it: when the
// tree was released, whenever a command starts, and at least once per reapInterval while commands run. What cannot be
// known is whose a process is that was started between two looks, cleared its mark or has parents that did, left its
// process group, and lost its parents before the second look. If it is not older than the only running tree, it counts
// as that tree's: nothing of a command may survive it. Rejected: to give the process its mark back with prlimit,
// because what it set is its own, and it may have lowered its hard limit as well.
type keptTree struct {
	mark    mark
	members map[processID]process // that were alive at the last look
}

// keptPause is the shortest time between two looks at what was kept while a tree ends.
const keptPause = 50 * time.Millisecond

// maxUnmarked is how many processes without the mark the host is told of: they fit into one message.
const maxUnmarked = 1000

// keep remembers the processes of a tree that is released, or is gone and was to be. While other trees run, some
// orphans can be the tree's or another one's: those count as kept, too, because to kill what was to be kept does more
// harm.
//
// It returns those without the mark that are surely the tree's, because no other one runs: the host finds the others.
func (g *guard) keep(t *guardedTree) (unmarked []processID) {
	k := &keptTree{mark: t.mark, members: map[processID]process{}}
	for range signalRounds {
		orphans, complete := g.reapOrphans()
		orphans = slices.DeleteFunc(orphans, func(pid int) bool { return !g.canBeOf(pid, t) })
		if k.remember(orphans) && complete {
			break
		}
	}
	if t.released || len(k.members) > 0 {
		g.kept = append(g.kept, k)
	}
	if len(g.trees) > 1 {
		return nil
	}
	for id := range k.members {
		if !t.mark.covers(markOf(id.PID)) && len(unmarked) < maxUnmarked {
			unmarked = append(unmarked, id)
		}
	}
	return unmarked
}

// canBeOf reports whether an orphan can belong to the tree: that is if no other tree, running or kept, has it.
func (g *guard) canBeOf(pid int, t *guardedTree) bool {
	p, err := readStat(pid)
	if err != nil {
		return false
	}
	m := markOf(pid)
	others := slices.ContainsFunc(g.trees, func(other *guardedTree) bool { return other != t && other.claims(p, m) })
	return t.claims(p, m) || !others && !t.youngerThan(p) && g.keptTreeOf(p, m) == nil
}

// keptTreeOf returns the kept tree that an orphan with that mark belongs to, nil if there is none.
func (g *guard) keptTreeOf(p process, m mark) *keptTree {
	if len(g.kept) == 0 {
		return nil
	}
	find := func(has func(*keptTree) bool) *keptTree {
		if i := slices.IndexFunc(g.kept, has); i >= 0 {
			return g.kept[i]
		}
		return nil
	}
	if k := find(func(k *keptTree) bool { _, known := k.members[p.id()]; return known || k.mark.covers(m) }); k != nil {
		return k
	}
	switch {
	case slices.ContainsFunc(g.trees, func(t *guardedTree) bool { return t.claims(p, m) }):
		return nil
	case !slices.ContainsFunc(g.trees, func(t *guardedTree) bool { return !t.youngerThan(p) }):
		return g.kept[0] // no running tree started it; it does not matter which one did
	case p.Group == g.hostGroup: // many trees can have processes in it
		return nil
	default:
		return find(func(k *keptTree) bool { // while one of its processes is in the group, the group's ID stays taken
			members := slices.Collect(maps.Values(k.members))
			return slices.ContainsFunc(members, func(m process) bool { return m.Group == p.Group })
		})
	}
}

// lookAtKept remembers what kept processes have started, and forgets those that are gone.
func (g *guard) lookAtKept() {
	if len(g.kept) == 0 {
		return
	}
	began := time.Now()
	orphans, complete := g.reapOrphans()
	below := map[*keptTree][]int{}
	for _, pid := range orphans {
		if p, err := readStat(pid); err == nil {
			k := g.keptTreeOf(p, markOf(pid))
			below[k] = append(below[k], pid)
		}
	}
	g.kept = slices.DeleteFunc(g.kept, func(k *keptTree) bool { return k.look(below[k]) && complete })
	// A tenth of the time at most, however many processes were kept.
	g.keptLookDue = time.Now().Add(max(keptPause, 10*time.Since(began)))
}

// look remembers the living processes below the orphans, and forgets those that are gone. It reports whether nothing is
// left: that needs two looks, because one can miss what loses its parent meanwhile.
func (k *keptTree) look(orphans []int) (empty bool) {
	before := k.members
	k.members = map[processID]process{}
	k.remember(orphans)
	for id, p := range before {
		if _, seen := k.members[id]; !seen && id.exists() {
			k.members[id] = p
		}
	}
	return len(before) == 0 && len(k.members) == 0
}

// remember adds the orphans and all that descends from them. It reports false if there may be more. Every living
// process of the tree is below one of its orphans.
func (k *keptTree) remember(orphans []int) (complete bool) {
	found := map[processID]process{}
	w := walk{mark: k.mark, visit: func(m member) { found[m.id()] = m.process }, missed: func(int) {}}
	complete = w.from(orphans, anyProcess)
	maps.Copy(k.members, found)
	return complete
}
