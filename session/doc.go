// Package session keeps a row in a database for each run, so that a run can be judged by others than the process that runs it: when it had its last event, where
// it runs, and whether it still does. Package sweep looks for the rows that went stale; a [Keeper] keeps those of a process's live watchdogs fresh, in batches, and
// tells a watchdog that its run was cancelled from elsewhere.
//
// A [Store] keeps the rows beside the events, so that a cancel is one transaction. Those of store/sqlite and store/postgres are ready-made; package sessiontest says
// whether another is right, and [Memory] is one for tests.
//
// All times of rows are by the clock of the database: a store is told how long ago something was, and not when, so that hosts whose clocks differ agree.
//
// # Keeping rows fresh
//
// A process makes one [Keeper], gives it to each run as its [watchdog.Config].Keeper, and has [Keeper.Run] run from before the first until after the last. A run then
// has a row from its attach on: Active, with its host and the number of its attempt. At each pace the keeper looks at all runs, and writes in one statement those rows that
// are a tenth of the threshold behind, and in another how runs have ended: a signal of a run never waits for the database. A process that dies leaves rows that go stale; the
// next attach to such a run says that the attempt before was lost, and the run's events record it.
//
// A cancel that another host wrote reaches the run at once where the store is a [Listener], with the next poll where it is not, and at the latest when its
// row is written. The run's context then ends with the stop that is stored. While the database is down nothing is lost: rows, ends and cancels are caught up with when it is back.
//
// # What it does not do
//
// The package decides nothing: what is stalled is judged in internal/verdict.
package session
