// Package crashtest proves, with real processes and a real database, what no test inside one process can: that a run
// has exactly one cancel event per window when its process is killed with SIGKILL at any moment, and when many
// processes watch the same run and all fire at once.
//
// The test binary is its own child: it attaches to runs that its parent names and prints how they ended. What the events must look like is
// written down a second time in history_test.go, without the library's own reading of them.
//
// The package has nothing to import.
package crashtest
