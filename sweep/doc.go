// Package sweep finds sessions in a database that have stalled, whoever ran them, and cancels them: the process that
// should have ended one may be dead, stuck or on another host.
//
//	sweeper, err := sweep.New(store, store, sweep.Config{StopHook: agents.Stop})
//	if err != nil {
//		return err
//	}
//	http.Handle("/healthz", sweeper.Handler())
//	return sweeper.Run(ctx)
//
// # What is stalled
//
// A session is stalled if it is active, at least [Config].MinAge old, and has had no event for more than
// [Config].StalledThreshold. Before its first event the time counts from its creation. A session can have a threshold
// of its own, or [watchdog.NoLimit] for none. The database finds the sessions, the longest stalled first. The sweeper
// judges each one again by the clock of the database, so that hosts whose clocks differ agree. A row that cannot be
// read is an error, is counted, and is never cancelled.
//
// # A pass
//
// At every interval the sweeper has one pass. It takes the stalled sessions one after the other, and cancels at most
// [Config].MaxCancellationsPerRun of them:
//
//   - With a [Config].Grace it first appends a warning event, and comes back after the grace. A session that has had
//     an event by then is left alone.
//   - The [Config].StopHook stops what works on the session. If it fails, hangs or panics, that is counted, and the
//     session is cancelled all the same.
//   - The [Canceller] ends the session, with the events of a [StalledRun], if the session is still as it was judged.
//     A session that woke up, or that another sweeper cancelled first, is spared. A live run on another host sees the
//     event and ends: see [session.Keeper].
//   - A [ResumePolicy] has the session started again, up to a number of times for each run.
//
// One bad session never stops a pass: the sweeper tries it again in later passes, at growing intervals, and goes on
// to the others. There are never two passes at once; a long pass delays the next one. When the database fails the
// pass ends, and the next passes come after growing waits, up to the interval.
//
// # What operators see
//
// [Sweeper.Stats] and [Sweeper.Handler] say what was done. [Config].OnPass gets every [Pass] with its cases,
// [Config].Alert is called when there are many cancels. The log has the keys run, reason, silence, threshold, host and
// attempt, and no content; at debug level it also has the settings when Run starts and the counts when it ends. With
// [Config].DryRun the sweeper only says what it would cancel.
//
// # A host's own tables
//
// [Finder] and [Canceller] have one method each; a [session.Store] is both. A finder whose database cannot judge may
// return every active session, at the price of reading them all.
//
// The package keeps no rows and knows no database. It does not decide what an event of a session is, and never
// touches a session that is not active.
package sweep
