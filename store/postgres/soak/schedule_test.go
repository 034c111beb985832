//go:build linux

package soak_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// A kind is a kind of fault.
type kind struct {
	name        string
	least, most time.Duration // how long it lasts
	count       int           // how many of it come before all kinds of its group come again
}

// The kinds by what they hit. A host that is hit for at most two promises stays live: it has the third to write in.
var (
	hostKinds = []kind{
		{stopped, promise / 5, 2 * promise, 1}, {stopped, death + promise, 2 * death, 1},
		{killed, promise / 5, 2 * death, 1},
		{delayed, promise, 3 * promise, 1},
		{cut, promise / 5, 2 * promise, 1}, {cut, death + promise, 2 * death, 1},
		{withheld, promise / 5, 2 * promise, 1}, {withheld, death + promise, 2 * death, 1},
		{halfOpen, promise / 5, 2 * promise, 1},
		{losing, promise / 5, promise, 1},
	}
	sweeperKinds = []kind{
		{stopped, promise / 5, 2 * death, 1}, {killed, promise / 5, 2 * promise, 1},
		{delayed, promise, 3 * promise, 1}, {cut, promise / 5, 2 * promise, 1}, {withheld, promise / 5, 2 * death, 1},
		{halfOpen, promise / 5, 2 * promise, 1}, {losing, promise, 3 * promise, 3},
	}
	serverKinds = []kind{
		{fastStop, 0, 2 * promise, 1}, {immediateStop, 0, 2 * promise, 1}, {promotion, 0, 1, 1},
		{standbyAway, promise / 5, 2 * promise, 1}, {splitBrain, promise / 5, 2 * death, 1},
	}
	lockKinds = []kind{
		{rowsLocked, promise, threshold + 2*promise, 1},
		{tableLocked, promise, threshold / 2, 1}, {tableLocked, threshold + promise, threshold + 2*promise, 1},
	}
	clockKinds = []kind{
		{clockForward, threshold, 2 * threshold, 2}, {clockForward, time.Minute, 10 * time.Minute, 1},
		{clockBack, promise, threshold, 2},
	}
)

// The names of the faults.
const (
	stopped       = "SIGSTOP"
	killed        = "SIGKILL"
	delayed       = "network slow"
	cut           = "network cut"
	withheld      = "network holds all back and then delivers"
	halfOpen      = "connections half-open"
	losing        = "network loses answers after commit"
	fastStop      = "server stopped"
	immediateStop = "server stopped at once"
	promotion     = "primary killed, standby promoted"
	standbyAway   = "synchronous standby away"
	splitBrain    = "two primaries"
	rowsLocked    = "rows locked by a stranger"
	tableLocked   = "table locked by a stranger"
	clockForward  = "clock of the servers set forward"
	clockBack     = "clock of the servers set back"
)

// A fault is an entry of the schedule. Its length is how far a clock steps.
type fault struct {
	name       string
	at, length time.Duration // since the start of the soak
	target     int           // the index of the host or sweeper
	must       bool          // it comes also if a busy machine is late
}

func (f fault) String() string {
	return fmt.Sprintf("%v %s %d for %v", f.at.Round(time.Millisecond), f.name, f.target, f.length.Round(time.Millisecond))
}

// instant reports whether the fault is over at once.
func (f fault) instant() bool { return f.name == clockForward || f.name == clockBack }

// end returns when the fault is over.
func (f fault) end() time.Duration {
	if f.instant() {
		return f.at
	}
	return f.at + f.length
}

// A group is what faults of some kinds hit: each target has one at a time.
type group struct {
	name    string
	kinds   []kind
	targets int
	pause   time.Duration // at least, between two faults of a target; three times as long at most
}

var groups = []group{
	{"host", hostKinds, hostCount, promise + promise/2},
	{"sweeper", sweeperKinds, sweeperCount, promise},
	{"server", serverKinds, 1, promise},
	{"lock", lockKinds, 1, promise / 2},
	{"clock", clockKinds, 1, promise},
}

// draw returns the faults of a group in order. Each kind comes at least once, also if that takes longer.
func (g group) draw(random *rand.Rand, length time.Duration) (all []fault) {
	free := make([]time.Duration, g.targets)
	for first := true; first || slices.Min(free) < length; first = false {
		for _, k := range g.deal(random) {
			target := slices.Index(free, slices.Min(free))
			f := fault{name: k.name, target: target, length: between(random, k.least, k.most), must: first}
			f.at = free[target] + between(random, g.pause, 3*g.pause)
			if !first && f.end() > length {
				return sorted(all)
			}
			free[target] = f.end()
			all = append(all, f)
		}
	}
	return sorted(all)
}

// deal returns all kinds of the group, each as often as it says, in random order.
func (g group) deal(random *rand.Rand) (deck []kind) {
	for _, k := range g.kinds {
		deck = append(deck, slices.Repeat([]kind{k}, k.count)...)
	}
	random.Shuffle(len(deck), func(i, j int) { deck[i], deck[j] = deck[j], deck[i] })
	return deck
}

func sorted(all []fault) []fault {
	slices.SortStableFunc(all, func(a, b fault) int { return cmp.Compare(a.at, b.at) })
	return all
}

func between(random *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(random.Int64N(int64(most-least)))
}

// setBack returns how far the clocks go back in the last minute of the faults.
func setBack(all []fault) (sum time.Duration) {
	for _, f := range all {
		if f.name == clockBack && all[len(all)-1].at-f.at < time.Minute {
			sum += f.length
		}
	}
	return sum
}
