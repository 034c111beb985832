// Package crashtest proves with real processes and real databases that a window of a run has exactly one end, a cancel
// or a complete, when its process is killed with SIGKILL at any moment, and when many processes watch the same run and
// fire, resume or complete it at once. A test inside one process cannot prove that.
//
// The test binary is its own child: it attaches to runs that its parent names and prints how they ended.
// The events are read without the library: that is a second description of what they must be.
//
// The package exports nothing.
package crashtest
