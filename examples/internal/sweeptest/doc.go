// Package sweeptest proves, with real processes and real databases, what no test inside one process can: that of any number of sweepers on one database each stalled session is
// cancelled once, and none that woke up, also when sweepers are killed and the server goes down; and that a cancel ends a live run on another host.
//
// The test binary is its own child: a sweeper, or a host with a live run. What became of the sessions is read from the tables themselves.
//
// With WATCHDOG_LONG set there are as many active sessions as the design promises. Without PostgreSQL its tests are skipped.
//
// The package has nothing to import.
package sweeptest
