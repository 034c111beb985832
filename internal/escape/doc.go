// Package escape starts process trees that try to outlive whoever started them: children that ignore signals, daemons,
// processes that restart each other, crowds.
//
// Each [Scenario] is a program with arguments and an environment, so anything that starts commands can be tested with
// it. The program is the caller's own, executed again: its main, or its TestMain, calls [Main] first, and Main plays
// the role that the arguments name.
//
// Two independent methods find what was started. Every process writes its PID and its start time to a registry file,
// and [Alive] returns which of those are alive. And every process has the scenario's token as its first argument, and
// [WithToken] searches the whole system for it.
//
// The package is for tests and measurements on Linux. Its processes exit after five minutes. Only [Scenario.End] kills
// them earlier.
package escape
