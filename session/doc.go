// Package session keeps a row in a database for each run, so that other processes than the one that runs it can judge
// the run: when it had its last event, where it runs, and whether it still does. Package sweep looks for the rows that
// went stale. A [Keeper] keeps the rows of a process's live watchdogs fresh, in batches, and tells a watchdog that its
// run was cancelled from elsewhere.
//
// A [Store] keeps the rows beside the events, so that a cancel is one transaction. store/sqlite and store/postgres have
// one each. Package sessiontest tests any other, and [Memory] is one for tests.
//
// # Leases
//
// A process makes one [Keeper], gives it to each run as its [watchdog.Config].Keeper, and runs [Keeper.Run] from before
// the first run until after the last. The keeper has one [Lease], which it renews several times in each promise and
// names in the rows of its runs. Whether the process lives is observed there, by whoever sweeps, and costs the database
// what its hosts are and not what their runs are. While a lease lives a run is silent only as far as its keeper vouches
// for it, by the keeper's own monotonic clock. A run that has not signalled since its attach is not silent at all.
//
// A process that was stopped or cut off for longer than three promises can find that its lease has expired. It then
// begins another, claims back the rows that are still active, and ends the other runs with the cancel that they had.
//
// # Rows
//
// A run has a row from its attach on: Active, with its host and the number of its attempt. Once in every pace the
// keeper looks at all runs. It writes the rows that are a tenth of the threshold behind in one statement, with those
// that will be soon, says once that a run has had nothing new for a minute, and writes how runs have ended in another.
// A signal of a run never waits for the database. When Close or Complete of a run returns, its row says so. A row that
// was lost while its run lives is made again. The next attach to a run whose process died reports that the attempt
// before was lost, and the run's events record it. An attach to a run that lives in another process takes it over: it
// ends there, with a [TakeoverError].
//
// A cancel that another host wrote reaches the run at once if the store is a [Listener], else with the next poll, and
// at the latest when the keeper writes the run's row. The run's context then ends with the stored stop. While the
// database is down nothing is lost: rows, ends and cancels catch up when it is back.
//
// The times of rows without a lease, which other programs write, are by the clock of the database: callers tell a store
// how long ago something was, not when, so that hosts whose clocks differ agree.
//
// # What it does not do
//
// The package decides nothing: internal/verdict judges what is stalled, and when a lease has expired.
package session
