// Package sim simulates a fleet of hosts, sweepers and a database that fail, on fake time and driven by one seed.
// All of it is in its tests. `make sim` runs as many seeds as one wants; a failure prints its seed and the steps
// before it.
//
// Hosts are keepers of package session with runs of the root, sweepers are those of package sweep, and all of them
// share one session.Memory, each by a way of its own that can fail. A step starts, ends, kills or stops one of
// them, does something with a run, or has something go wrong: calls that fail, hang, lose their answers or take
// effect late, for one process or for all; rows that are locked, refused or deleted; leases that are locked or that a
// stranger expires; a database that comes back older; clocks that are set. After each step all is quiet before time
// goes on. A seed has only some kinds of steps.
//
// # Clocks
//
// Two of three hosts have a wall clock of their own, as the Clock in the Config of their runs: it is up to a minute and
// a half ahead or behind, and is set forward and back. The others have the time of the bubble, so that the code for the
// machine's clock runs, too. The database has a clock of its own that steps. Keepers and sweepers have none, because
// they read none: packages session and sweep measure by the monotonic clock, which nobody sets, and write the times of
// the database. What a sweeper says of its next pass, [sweep.Stats].Next, is the exception, and decides nothing.
// The monotonic clocks of all processes go at one rate.
//
// # What holds
//
// No run is ended by a sweeper whose process could write within every stretch of three promises, unless it was silent
// for more than its threshold, or its own idle limit where that is longer. No lease expires that was renewed, or that
// was not looked at for three promises, and none that has expired is renewed or lives again. A process that has to
// begin another lease has its rows in it within two promises, those that nobody holds up. No session stays active that
// nobody runs, and no run goes on whose row is not its own. No two processes run one run. A window has one end, and the
// row says what that says. Budgets are kept to the monotonic clock. Sweepers know of their cancels. What was
// acknowledged is stored. Calls return within their bounds.
//
// # What the checks leave out
//
// Close does not look up the end that is stored: the row says finished, with no reason, although a Complete that failed
// was stored all the same, or although a process that ran the run before recorded only then how it ended there. Calls
// of Complete at once take turns, each for its own bound, so that a run makes one at a time. A run whose row was lost,
// and whose number of attempt another process then had and ended, is not told before the rows and runs are compared.
// For a moment after a stranger has expired the lease of a living process, or the database has come back older, and as
// long as such a row cannot be written, the rows do not say that runs live, and a sweeper may end them.
//
// # The same again
//
// A seed gives the same steps and the same rows again. What several goroutines do at one instant has no order, nor have
// the IDs of leases: processes start, and notifications arrive, at instants of their own. What is left is rare: one of
// 600 seeds has two runs, in three of a hundred tries.
//
// # Bugs put back
//
// How many of 2,000 seeds find each:
//
//	Stalled judges leased rows by the database's clock          1626
//	one promise of looks is enough                              1343
//	a look that failed counts as one with the same beat          365
//	an expired lease can be renewed                              396
//	rows are not claimed back under another lease                 41
//	a row that is not written holds the instant vouched back       5
//	a run that has not signalled is silent                       799
//	Freshen takes an activity back                                14
//	a takeover does not end the run                              874
//	a cancel in doubt is forgotten                                52
//	a sweeper takes any end of a run it claimed for its own        3
//	Cancel does not look for a stored end                         14
//	rows that nobody runs are not ended                           92
//	rows that nobody runs are ended without a look at the end      6
//	two processes with one number of attempt run on                2
//	End does not look at the attempt                              19
//	ExpireLease does not look at the beat                          8
//	elapsed time is taken from a wall clock that is set           54
package sim
