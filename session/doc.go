// Package session keeps a row in a database for each run, so that a run can be judged by others than the process that runs it: when it had its last event, where
// it runs, and whether it still does. Package sweep looks for the rows that went stale; a [Keeper] keeps those of a process's live watchdogs fresh, in batches, and
// tells a watchdog that its run was cancelled from elsewhere.
//
// A [Store] keeps the rows beside the events, so that a cancel is one transaction. Those of store/sqlite and store/postgres are ready-made; package sessiontest says
// whether another is right, and [Memory] is one for tests.
//
// All times of rows are by the clock of the database: a store is told how long ago something was, and not when, so that hosts whose clocks differ agree.
//
// The package decides nothing: what is stalled is judged in internal/verdict.
package session
