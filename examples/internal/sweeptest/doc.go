// Package sweeptest proves with real processes and real databases that any number of sweepers on one database cancel
// each stalled session once and no session that woke up, also when sweepers are killed and the server crashes, and that
// a cancel ends a live run on another host. A test inside one process cannot prove that.
//
// The test binary is its own child: a sweeper, or a host with a live run. The tests read the tables without the
// library.
//
// Without PostgreSQL its tests are skipped.
//
// The package exports nothing.
package sweeptest
