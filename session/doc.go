// Package session keeps a row in a database for each run, so that other processes than the one that runs it can judge
// the run: when it had its last event, where it runs, and whether it still does. Package sweep looks for the rows that
// went stale. A [Keeper] keeps the rows of a process's live watchdogs fresh, in batches, and tells a watchdog that its
// run was cancelled from elsewhere.
//
// A [Store] keeps the rows beside the events, so that a cancel is one transaction. store/sqlite and store/postgres have
// one each. Package sessiontest tests any other, and [Memory] is one for tests.
//
// All times in rows are by the clock of the database: callers tell a store how long ago something was, not when, so
// that hosts whose clocks differ agree.
//
// # Keeping rows fresh
//
// A process makes one [Keeper], gives it to each run as its [watchdog.Config].Keeper, and runs [Keeper.Run] from before
// the first run until after the last. A run then has a row from its attach on: Active, with its host and the number of
// its attempt. Once in every pace the keeper looks at all runs. It writes the rows that are a tenth of the threshold
// behind in one statement, and how runs have ended in another. A signal of a run never waits for the database. A
// process that dies leaves rows that go stale. The next attach to such a run reports that the attempt before was lost,
// and the run's events record it.
//
// A cancel that another host wrote reaches the run at once if the store is a [Listener], else with the next poll, and
// at the latest when the keeper writes the run's row. The run's context then ends with the stored stop. While the
// database is down nothing is lost: rows, ends and cancels catch up when it is back.
//
// # What it does not do
//
// The package decides nothing: internal/verdict judges what is stalled.
package session
