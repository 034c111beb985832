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
// [Config].StalledThreshold. A session can have a threshold of its own, or [watchdog.NoLimit] for none. The database
// finds the sessions, the longest stalled first, and the sweeper judges each one again. A row that cannot be read is an
// error, is counted, and is never cancelled.
//
// A session that a [session.Keeper] keeps has the lease of its process. While that lives, the session is silent only as
// far as the lease vouches for it. Other sessions are silent since their last event, or their creation, by the clock of
// the database, so that hosts whose clocks differ agree. If that clock is set forward, these sessions are left alone
// until they have been silent for their threshold since then.
//
// # Dead processes
//
// The sweeper finds out by itself which processes are dead, and believes no stored time. A lease that has not been
// renewed since it was seen last is looked at once in each of its promises. After three promises in which every look
// succeeded and found the same beat it expires, and its sessions are without a lease. An outage of the database, a lock
// or a slow answer starts the observation again. So a pass takes three promises more if a process has died, and a
// sweeper that was just made takes one to see that the others live. The sessions of a lease that expires are taken at
// once, whatever other leases are still observed. A pass of [Sweeper.Run] waits only for leases of which five promises
// fit into the interval; the others are observed by the passes that come when the next look at them is due.
//
// The sessions of such a process are lost: their silence is proven. No cap counts them, so that the next pass cancels
// all that are stalled, however many they are. They are not lost, and the caps hold, where a whole fleet seems to have
// died: if in one observation at least three leases and a third of all were found dead, or if no other lease was
// renewed meanwhile. Then it is more likely that the hosts are cut off, and will be back. So a host that is alone is
// always a whole fleet: while its process is dead and nobody else renews a lease, its sessions are cancelled at the
// cap. They are lost if its process was started again before it was found dead, if a process of another host has runs,
// or if the sweeper's own process has a [session.Keeper] with one. The row keeps the decision, for all sweepers, until
// another process takes it up.
//
// A session whose lease expired is cancelled for [watchdog.SessionHostLost], also one of a whole fleet, and any other
// for [watchdog.SessionIdleTimeout]. The threshold decides when, and is the limit of both. The row keeps which lease it
// was and what was seen of it ([session.Session].Expired), so that every sweeper says the same.
//
// # A pass
//
// At every interval the sweeper has one pass. It takes the stalled sessions one after the other, observes the leases
// that are in doubt, and takes the sessions of those that have expired. Of sessions that only look stalled it cancels
// at most [Config].MaxCancellationsPerRun; [Config].MaxCancellationsPerMinute makes that a rate, and [Config].WorstTime
// says what follows from both. A pass that has cancelled as many goes on for the lost ones alone.
//
//   - With a [Config].Grace it first writes a warning, with an event. It or another sweeper comes back after the grace.
//     A session that has had an event by then is left alone.
//   - The [Config].StopHook stops what works on the session, under a claim that keeps other sweepers from doing so too.
//     If it fails, hangs or panics, that is counted and recorded, and the session is cancelled all the same.
//   - The [Canceller] ends the session, with the events of a [StalledRun], if the session is still as it was judged.
//     A [session.BatchCanceller] ends those of a page together that call no hook and are not started again, in one
//     transaction. If it fails, it is tried in halves, and the last ten by themselves.
//     A session that woke up, or that another sweeper cancelled first, is spared. If the end of the run is stored
//     already, the row is made to say that one. A live run on another host sees the event and ends: see
//     [session.Keeper].
//   - A [ResumePolicy] has the session started again, up to a number of times for each run. The cancel writes into the
//     row that the start is wanted. If Start fails, or no attempt of the run follows, or the sweeper dies, any sweeper
//     with a policy calls it again, until it was called often enough. A pass begins with the starts that are due.
//
// What has to outlive a sweeper is in the row: its claim, that the agents were stopped, a warning, and a start. So
// another one goes on wherever a sweeper died. If the answer about a cancel is lost, the sweeper reads the row to learn
// whether it was cancelled, and counts that once. If it cannot read the row either, the cancel does not count, and a
// later pass goes by what the row says then.
//
// One bad session never stops a pass: the sweeper tries it again in later passes, at growing intervals, and goes on
// to the others. There are never two passes at once; a long pass delays the next one. When the database fails the
// pass ends, and the next passes come after growing waits, up to the interval.
//
// # What operators see
//
// [Sweeper.Stats] and [Sweeper.Handler] say what was done. [Config].OnPass gets every [Pass] with its cases,
// [Config].Alert is called when there are many cancels. The log has the keys run, reason, silence, threshold, host and
// attempt, with lease, looks and renewed_at of a host that was lost, and no content; it says when a lease expired and
// when the database's clock was set. At debug level it also has the settings when Run starts and the counts when it
// ends. With [Config].DryRun the sweeper only says what it would cancel.
//
// # A host's own tables
//
// [Finder] and [Canceller] have one method each; a [session.Store] is both, and can do more. A finder whose database
// cannot judge may return every active session, at the price of reading them all.
//
// The package keeps no rows and knows no database. It does not decide what an event of a session is. Of a session
// that is not active it touches only the start that a cancel wanted.
package sweep
