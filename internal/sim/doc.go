// Package sim simulates a fleet of hosts, sweepers and a database that fail, on fake time and driven by one seed.
// All of it is in its tests. `make sim` runs as many seeds as one wants; a failure prints its seed and the steps
// before it.
//
// Hosts are keepers of package session with runs of the root, sweepers are those of package sweep, and all of them
// share one session.Memory, each by a way of its own that can fail. A step starts, ends, kills or stops one of
// them, does something with a run, or has something go wrong: calls that fail, hang, lose their answers or take
// effect late, for one process or for all; rows and leases that are locked, refused or deleted; a database that
// comes back older; a clock of the database that steps. After each step all is quiet before time goes on. A seed
// has only some kinds of steps.
//
// # What holds
//
// No run is ended by a sweeper whose process could write within every stretch of three promises, unless it was
// silent for more than its threshold. No lease expires that was renewed, or that was not looked at for three
// promises. No session stays active that nobody runs, and no run goes on whose row is not its own. No two processes
// run one run. A window has one end, and the row says what that says. Sweepers know of their cancels. What was
// acknowledged is stored. Calls return within their bounds.
//
// # The same again
//
// A seed gives the same steps and the same rows again, but for about one seed in a hundred: the order of what
// several goroutines do at one instant is not fixed, nor are the IDs of leases.
//
// # Bugs put back
//
// How many of 2,000 seeds find each:
//
//	Stalled judges leased rows by the database's clock         1734
//	one promise of looks is enough                             1185
//	a look that failed counts as one with the same beat         191
//	a lease that has expired can be renewed                      0: a row goes back by the next comparison
//	rows are not claimed back after an expiry                    0: the same; 14 without the comparison
//	a row that is not written holds the instant vouched back      8
//	a run that has not signalled is silent                      920
//	Freshen takes an activity back                               14
//	a takeover does not end the run                             982
//	a cancel in doubt is forgotten                               35
//	Cancel does not look for a stored end                         7
//	rows that nobody runs are not ended                          47
//	End does not look at the attempt                             11
//	ExpireLease does not look at the beat                         3
package sim
