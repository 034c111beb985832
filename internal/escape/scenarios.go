//go:build linux

package escape

import (
	"slices"
	"syscall"
)

const (
	hup  = syscall.SIGHUP
	intr = syscall.SIGINT
	term = syscall.SIGTERM
)

// scenario returns the scenario of a first process.
func scenario(name string, leader part) Scenario {
	return Scenario{
		Name: name, Processes: leader.processes(), LeaderExits: leader.Then == exits,
		SurvivesTERM: slices.Contains(leader.Ignore, term) || leader.StopsItself, leader: leader,
	}
}

// processes is how many the part and those below it are.
func (p part) processes() int {
	n := 1
	for _, child := range p.Children {
		n += max(child.Copies, 1) * child.processes()
	}
	if p.Then == startsTrees {
		n += 4 // a guard, a sleeper, and a daemon that was forked twice
	}
	return n
}

// sleeper is a process that only exists, rest one whose main thread has ended, and deafRest one that also ignores
// signals.
var (
	sleeper  = part{}
	rest     = part{Then: endsMainThread}
	deafRest = part{Ignore: []syscall.Signal{intr, term}, Then: endsMainThread}
)

// waiting is a process that waits for its children, leaving one that exits, and daemon one that does so in a session of
// its own.
func waiting(children ...part) part { return part{Children: children} }
func leaving(children ...part) part { return part{Children: children, Then: exits} }
func daemon(child part) part        { return part{Setsid: true, Children: []part{child}, Then: exits} }

func ignoring(signals ...syscall.Signal) part { return part{Ignore: signals} }

// Scenarios returns all scenarios but Churn and Crowd.
func Scenarios() []Scenario {
	return slices.Concat(signalScenarios(), daemonScenarios(), threadScenarios(), otherScenarios())
}

// signalScenarios are trees whose processes differ in the signals that they ignore.
func signalScenarios() []Scenario {
	return []Scenario{
		scenario("a cooperative command", part{ExitsOnSignal: true}),
		scenario("a tree of background children", waiting(waiting(sleeper, sleeper), waiting(sleeper, waiting(sleeper)))),
		scenario("a child that ignores INT", waiting(ignoring(intr))),
		scenario("a child that ignores TERM", waiting(ignoring(term))),
		scenario("a child that ignores INT and TERM", waiting(ignoring(intr, term))),
		scenario("all ignore INT and TERM", part{Ignore: []syscall.Signal{intr, term}, Children: []part{waiting(sleeper)}}),
		scenario("only a grandchild ignores TERM", waiting(waiting(ignoring(term)))),
	}
}

// daemonScenarios are trees with processes that leave their session or their parent.
func daemonScenarios() []Scenario {
	return []Scenario{
		scenario("setsid with a waiting leader", waiting(part{Setsid: true})),
		scenario("setsid without a waiting leader", leaving(part{Setsid: true})),
		scenario("a daemon, forked twice", waiting(leaving(sleeper))),
		scenario("a daemon, forked twice, with setsid", waiting(daemon(sleeper))),
		scenario("a daemon whose leader exits", leaving(daemon(sleeper))),
		scenario("nohup and exit", leaving(ignoring(hup))),
	}
}

// threadScenarios are trees with processes whose main thread has ended while others live. They show as zombies.
func threadScenarios() []Scenario {
	deafInSession := deafRest
	deafInSession.Setsid = true
	return []Scenario{
		scenario("a leader without its main thread", rest),
		scenario("a leader without its main thread that ignores INT and TERM", deafRest),
		scenario("a child without its main thread", waiting(rest)),
		scenario("a daemon without its main thread", leaving(daemon(rest))),
		scenario("a daemon without its main thread that ignores INT and TERM", leaving(daemon(deafInSession))),
	}
}

func otherScenarios() []Scenario {
	return []Scenario{
		scenario("a stopped child", waiting(part{StopsItself: true})),
		scenario("a stopped leader", part{Children: []part{sleeper}, StopsItself: true}),
		scenario("a respawner", waiting(part{
			Ignore: []syscall.Signal{intr, term}, Setsid: true, Children: []part{{ExitsOnSignal: true}}, Then: respawns,
		})),
		scenario("a child that restarts its leader", waiting(part{
			Ignore: []syscall.Signal{intr, term}, Then: restartsParent,
		})),
		scenario("200 processes", waiting(part{Copies: 200})),
		scenario("200 processes without a leader", leaving(part{Copies: 200, Setsid: true})),
		scenario("a child that holds the pipes open", leaving(part{KeepsStdio: true, Setsid: true})),
		scenario("a child that cleared its environment", waiting(part{
			Setsid: true, EmptyEnv: true, Children: []part{{EmptyEnv: true}}, Then: exits,
		})),
		scenario("a child that closed all descriptors", waiting(daemon(part{ClosesFDs: true}))),
		scenario("a host of its own", part{Then: startsTrees}),
		scenario("an orphan in the group that set its limit of file locks", leaving(part{SetsLimit: true})),
		scenario("an orphan that set its limit of file locks", waiting(daemon(part{SetsLimit: true}))),
	}
}

// Churn returns a process that keeps starting short-lived ones and ignores signals, so that PIDs are reused.
func Churn() Scenario {
	return scenario("short-lived children without end", part{Ignore: []syscall.Signal{intr, term}, Then: churns})
}

// Crowd returns a leader with that many children.
func Crowd(below int) Scenario {
	if below == 0 {
		return scenario("a crowd", sleeper)
	}
	return scenario("a crowd", waiting(part{Copies: below}))
}
