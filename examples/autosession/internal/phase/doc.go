// Package phase runs the commands of a session: each in a process group of its own, with its output in a log, and
// ended with its group when its context ends.
//
// What is left of a group when its first process is gone is killed, so that a phase is over when it returns. What leaves the group with setsid, or is
// started by somebody else on its behalf, is out of reach; a host that must end that too wants a process tree, not a group.
package phase
