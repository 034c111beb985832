// Package escape has the shapes that a tree of processes can take to outlive the one who started it: children that ignore signals, daemons, respawners, crowds.
//
// Each [Scenario] is a program to start, with arguments and an environment and nothing else, so that whatever starts commands can be tried on it. The program
// is the caller's own, executed again: its main, or its TestMain, calls [Main] first, which plays the role that the arguments name.
//
// What was started is found by two proofs that know nothing of each other. Every process writes its number and the time it was started into a registry, a
// file, and [Alive] looks which of those processes are there. And every process has the scenario's token as its first argument, for which [Holding] searches
// the whole system.
//
// The package is for tests and measurements on Linux. It ends nothing that it finds, and every process of it ends by itself after five minutes.
package escape
