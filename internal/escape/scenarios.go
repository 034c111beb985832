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

// sleeper is a process that only exists.
var sleeper = part{}

// Scenarios returns all scenarios but Churn and Crowd.
func Scenarios() []Scenario {
	return slices.Concat(signalScenarios(), daemonScenarios(), threadScenarios(), otherScenarios())
}

// signalScenarios are trees whose processes differ in the signals that they ignore.
func signalScenarios() []Scenario {
	return []Scenario{
		{Name: "a cooperative command", Processes: 1, leader: part{ExitsOnSignal: true}},
		{Name: "a tree of background children", Processes: 8, leader: part{Children: []part{
			{Children: []part{sleeper, sleeper}}, {Children: []part{sleeper, {Children: []part{sleeper}}}},
		}}},
		{
			Name: "a child that ignores INT", Processes: 2,
			leader: part{Children: []part{{Ignore: []syscall.Signal{intr}}}},
		},
		{
			Name: "a child that ignores TERM", Processes: 2,
			leader: part{Children: []part{{Ignore: []syscall.Signal{term}}}},
		},
		{
			Name: "a child that ignores INT and TERM", Processes: 2,
			leader: part{Children: []part{{Ignore: []syscall.Signal{intr, term}}}},
		},
		{Name: "all ignore INT and TERM", Processes: 3, SurvivesTERM: true, leader: part{
			Ignore: []syscall.Signal{intr, term}, Children: []part{{Children: []part{sleeper}}},
		}},
		{
			Name: "only a grandchild ignores TERM", Processes: 3,
			leader: part{Children: []part{{Children: []part{{Ignore: []syscall.Signal{term}}}}}},
		},
	}
}

// daemonScenarios are trees with processes that leave their session or their parent.
func daemonScenarios() []Scenario {
	return []Scenario{
		{Name: "setsid with a waiting leader", Processes: 2, leader: part{Children: []part{{Setsid: true}}}},
		{
			Name: "setsid without a waiting leader", Processes: 2, LeaderExits: true,
			leader: part{Children: []part{{Setsid: true}}, Then: exits},
		},
		{
			Name: "a daemon, forked twice", Processes: 3,
			leader: part{Children: []part{{Children: []part{sleeper}, Then: exits}}},
		},
		{Name: "a daemon, forked twice, with setsid", Processes: 3, leader: part{Children: []part{
			{Setsid: true, Children: []part{sleeper}, Then: exits},
		}}},
		{Name: "a daemon whose leader exits", Processes: 3, LeaderExits: true, leader: part{
			Children: []part{{Setsid: true, Children: []part{sleeper}, Then: exits}}, Then: exits,
		}},
		{
			Name: "nohup and exit", Processes: 2, LeaderExits: true,
			leader: part{Children: []part{{Ignore: []syscall.Signal{hup}}}, Then: exits},
		},
	}
}

// threadScenarios are trees with processes whose main thread has ended while others live. They show as zombies.
func threadScenarios() []Scenario {
	rest := part{Then: endsMainThread}
	return []Scenario{
		{Name: "a leader without its main thread", Processes: 1, leader: rest},
		{
			Name: "a leader without its main thread that ignores INT and TERM", Processes: 1, SurvivesTERM: true,
			leader: part{Ignore: []syscall.Signal{intr, term}, Then: endsMainThread},
		},
		{Name: "a child without its main thread", Processes: 2, leader: part{Children: []part{rest}}},
		{Name: "a daemon without its main thread", Processes: 3, LeaderExits: true, leader: part{
			Children: []part{{Setsid: true, Children: []part{rest}, Then: exits}}, Then: exits,
		}},
		{Name: "a daemon without its main thread that ignores INT and TERM", Processes: 3, LeaderExits: true, leader: part{
			Children: []part{{Setsid: true, Then: exits, Children: []part{
				{Setsid: true, Ignore: []syscall.Signal{intr, term}, Then: endsMainThread},
			}}}, Then: exits,
		}},
	}
}

func otherScenarios() []Scenario {
	return []Scenario{
		{Name: "a stopped child", Processes: 2, leader: part{Children: []part{{StopsItself: true}}}},
		{
			Name: "a stopped leader", Processes: 2, SurvivesTERM: true,
			leader: part{Children: []part{sleeper}, StopsItself: true},
		},
		{Name: "a respawner", Processes: 3, leader: part{Children: []part{
			{Ignore: []syscall.Signal{intr, term}, Setsid: true, Children: []part{{ExitsOnSignal: true}}, Then: respawns},
		}}},
		{
			Name: "a child that restarts its leader", Processes: 2,
			leader: part{Children: []part{{Ignore: []syscall.Signal{intr, term}, Then: restartsParent}}},
		},
		{Name: "200 processes", Processes: 201, leader: part{Children: []part{{Copies: 200}}}},
		{
			Name: "200 processes without a leader", Processes: 201, LeaderExits: true,
			leader: part{Children: []part{{Copies: 200, Setsid: true}}, Then: exits},
		},
		{
			Name: "a child that holds the pipes open", Processes: 2, LeaderExits: true,
			leader: part{Children: []part{{KeepsStdio: true, Setsid: true}}, Then: exits},
		},
		{Name: "a child that cleared its environment", Processes: 3, leader: part{Children: []part{
			{Setsid: true, EmptyEnv: true, Children: []part{{EmptyEnv: true}}, Then: exits},
		}}},
		{Name: "a child that closed all descriptors", Processes: 3, leader: part{Children: []part{
			{Setsid: true, Children: []part{{ClosesFDs: true}}, Then: exits},
		}}},
		{Name: "a host of its own", Processes: 5, leader: part{Then: startsTrees}},
		{Name: "an orphan in the group that set its limit of file locks", Processes: 2, LeaderExits: true, leader: part{
			Children: []part{{SetsLimit: true}}, Then: exits,
		}},
		{Name: "an orphan that set its limit of file locks", Processes: 3, leader: part{Children: []part{
			{Setsid: true, Children: []part{{SetsLimit: true}}, Then: exits},
		}}},
	}
}

// Churn returns a process that keeps starting short-lived ones and ignores signals, so that PIDs are reused.
func Churn() Scenario {
	return Scenario{
		Name: "short-lived children without end", Processes: 1, SurvivesTERM: true,
		leader: part{Ignore: []syscall.Signal{intr, term}, Then: churns},
	}
}

// Crowd returns a leader with that many children.
func Crowd(below int) Scenario {
	s := Scenario{Name: "a crowd", Processes: below + 1}
	if below > 0 {
		s.leader.Children = []part{{Copies: below}}
	}
	return s
}
