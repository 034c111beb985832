// Package sweep finds sessions in a database that have stalled, whoever ran them, and cancels them: the process that should have ended one may be dead, stuck or on
// another host.
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
// A session that is active, at least [Config].MinAge old, and without an event for more than [Config].StalledThreshold, counted from its creation before its first one. A
// session can have a threshold of its own, or [watchdog.NoLimit] for none. The database finds them, the longest stalled first, and each is judged again by the clock of the database,
// which is why hosts whose clocks differ agree. What cannot be read is an error, counted, and never a cancel.
//
// # A pass
//
// Every interval the sweeper takes what is stalled, at most [Config].MaxCancellationsPerRun, one after the other:
//
//   - With a [Config].Grace it appends a warning, and comes back after the grace. A session that has had an event by then has its peace.
//   - The [Config].StopHook stops what works on the session. That it fails, hangs or panics is counted and does not keep the session from being cancelled.
//   - The [Canceller] ends the session, with the events of [StalledRun], only if the session still is as it was judged. A session that woke up, or that another sweeper
//     was faster with, is spared. A live run on another host sees the event and ends: see [session.Keeper].
//   - A [ResumePolicy] has it started again, up to a number of times for each run.
//
// One bad session never stops a pass: it is tried again in later and later passes, and the others have their turn. There are never two passes at once; a pass that takes
// long puts off the next. When the database fails the pass ends, and the next ones come after longer and longer times, up to the interval.
//
// # What operators see
//
// [Sweeper.Stats] and [Sweeper.Handler] say what was done, [Config].OnPass is given every [Pass] with its cases, [Config].Alert tells of many cancels, and the log has the keys run,
// reason, silence, threshold, host and attempt, and no content. [Config].DryRun only says what would be cancelled.
//
// # A host's own tables
//
// [Finder] and [Canceller] have one method each; a [session.Store] is both. A source that cannot judge may return every active session, at the price of reading all of
// them.
//
// The package keeps no rows and knows no database; it does not decide what a session's event is, and never touches a session that is not active.
package sweep
