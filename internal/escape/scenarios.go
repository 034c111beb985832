//go:build linux

package escape

import "syscall"

const (
	hup  = syscall.SIGHUP
	intr = syscall.SIGINT
	term = syscall.SIGTERM
)

// sleeper is a process that is just there.
var sleeper = part{}

// Scenarios returns all of them.
func Scenarios() []Scenario {
	return []Scenario{
		{Name: "a cooperative command", Processes: 1, leader: part{Polite: true}},
		{Name: "a tree of background children", Processes: 8, leader: part{Children: []part{
			{Children: []part{sleeper, sleeper}}, {Children: []part{sleeper, {Children: []part{sleeper}}}},
		}}},
		{Name: "a child that ignores INT", Processes: 2, leader: part{Children: []part{{Ignore: []syscall.Signal{intr}}}}},
		{Name: "a child that ignores TERM", Processes: 2, leader: part{Children: []part{{Ignore: []syscall.Signal{term}}}}},
		{Name: "a child that ignores INT and TERM", Processes: 2, leader: part{Children: []part{{Ignore: []syscall.Signal{intr, term}}}}},
		{Name: "all ignore INT and TERM", Processes: 3, Deaf: true, leader: part{
			Ignore: []syscall.Signal{intr, term}, Children: []part{{Children: []part{sleeper}}},
		}},
		{Name: "only a grandchild ignores TERM", Processes: 3, leader: part{Children: []part{{Children: []part{{Ignore: []syscall.Signal{term}}}}}}},
		{Name: "setsid with a waiting leader", Processes: 2, leader: part{Children: []part{{Session: true}}}},
		{Name: "setsid without a waiting leader", Processes: 2, Ends: true, leader: part{Children: []part{{Session: true}}, Then: leaves}},
		{Name: "a daemon, forked twice", Processes: 3, leader: part{Children: []part{{Children: []part{sleeper}, Then: leaves}}}},
		{Name: "a daemon, forked twice, with setsid", Processes: 3, leader: part{Children: []part{
			{Session: true, Children: []part{sleeper}, Then: leaves},
		}}},
		{Name: "a daemon whose leader exits", Processes: 3, Ends: true, leader: part{
			Children: []part{{Session: true, Children: []part{sleeper}, Then: leaves}}, Then: leaves,
		}},
		{Name: "nohup and exit", Processes: 2, Ends: true, leader: part{Children: []part{{Ignore: []syscall.Signal{hup}}}, Then: leaves}},
		{Name: "a stopped child", Processes: 2, leader: part{Children: []part{{Stopped: true}}}},
		{Name: "a stopped leader", Processes: 2, Deaf: true, leader: part{Children: []part{sleeper}, Stopped: true}},
		{Name: "a respawner", Processes: 3, leader: part{Children: []part{
			{Ignore: []syscall.Signal{intr, term}, Session: true, Children: []part{{Polite: true}}, Then: respawns},
		}}},
		{Name: "a child that restarts its leader", Processes: 2, leader: part{Children: []part{{Ignore: []syscall.Signal{intr, term}, Then: revives}}}},
		{Name: "200 processes", Processes: 201, leader: part{Children: []part{{Copies: 200}}}},
		{Name: "200 processes without a leader", Processes: 201, Ends: true, leader: part{Children: []part{{Copies: 200, Session: true}}, Then: leaves}},
		{Name: "a child that holds the pipes open", Processes: 2, Ends: true, leader: part{Children: []part{{Pipes: true, Session: true}}, Then: leaves}},
		{Name: "a child that cleared its environment", Processes: 3, leader: part{Children: []part{
			{Session: true, Bare: true, Children: []part{{Bare: true}}, Then: leaves},
		}}},
		{Name: "a child that closed all descriptors", Processes: 3, leader: part{Children: []part{
			{Session: true, Children: []part{{Closed: true}}, Then: leaves},
		}}},
		{Name: "a host of its own", Processes: 5, leader: part{Then: hosts}},
		{Name: "an orphan in the group that set its limit of file locks", Processes: 2, Ends: true, leader: part{
			Children: []part{{Limit: true}}, Then: leaves,
		}},
		{Name: "an orphan that set its limit of file locks", Processes: 3, leader: part{Children: []part{
			{Session: true, Children: []part{{Limit: true}}, Then: leaves},
		}}},
	}
}

// Churn is a process that goes on starting short-lived ones, whatever signal it gets: for a system whose process numbers are to be used up.
func Churn() Scenario {
	return Scenario{Name: "short-lived children without end", Processes: 1, Deaf: true, leader: part{Ignore: []syscall.Signal{intr, term}, Then: churns}}
}

// Crowd is a leader and as many processes below it.
func Crowd(below int) Scenario {
	s := Scenario{Name: "a crowd", Processes: below + 1}
	if below > 0 {
		s.leader.Children = []part{{Copies: below}}
	}
	return s
}
