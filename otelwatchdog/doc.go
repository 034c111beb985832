// Package otelwatchdog tells OpenTelemetry what the watchdog and the sweeper do: metrics for all runs of a process, and a span for each run. It is a module of its
// own, so that a host without OpenTelemetry has none of it in its go.mod.
//
// # Use
//
// One [Instrument] serves the whole process. Where the host called [watchdog.New] it calls [Instrument.Attach], and has a watchdog as before, whose run is measured:
//
//	instrument, err := otelwatchdog.New(otelwatchdog.Config{})
//	...
//	wd, err := instrument.Attach(ctx, watchdog.Run{ID: s.ID, StartedAt: s.StartedAt}, watchdog.Config{Store: store})
//	if err != nil {
//		return err
//	}
//	defer wd.Close()
//
// [Instrument.Resume] stands for [watchdog.Resume], [Watchdog.Layer] measures a layer, [Instrument.Calls] the calls that [bound.Do] abandons, and [Instrument.Pass] the
// passes of a sweeper.
//
// # Metrics
//
// Of the live watchdogs:
//
//	name                        kind             unit     what
//	watchdog.runs.live          up-down counter  {run}    runs that are guarded and have not ended
//	watchdog.trips.total        counter          {trip}   trips of limits, and cancels of other guards
//	watchdog.lateness.ms        histogram        ms       how much later than its limit a trip was found
//	watchdog.calls.abandoned    counter          {call}   bounded calls that were abandoned
//	watchdog.calls.outstanding  up-down counter  {call}   those of them that have not ended
//
// Of the sweepers whose [sweep.Config].OnPass is [Instrument.Pass]:
//
//	name                        kind       unit       what
//	watchdog.checks.total       counter    {pass}     passes
//	watchdog.sessions.checked   counter    {session}  sessions that were judged
//	watchdog.sessions.found     counter    {session}  those of them that are stalled
//	watchdog.sessions.canceled  counter    {session}  those that were cancelled
//	watchdog.sessions.spared    counter    {session}  those that had woken up or ended when they were to be
//	watchdog.sessions.failed    counter    {session}  those that could not be warned or cancelled
//	watchdog.sessions.warned    counter    {session}  those that were warned first
//	watchdog.sessions.resumed   counter    {session}  cancelled ones that were started again
//	watchdog.errors.total       counter    {error}    everything that went wrong
//	watchdog.duration.ms        histogram  ms         how long a pass took
//
// Those have no attributes. Live runs have the attribute watchdog.layer, which tells layers from runs of their own. Trips and their lateness have these:
//
//	watchdog.reason        the code of the limit or of the guard, see [watchdog.StopReasons]; a host's own code, or [OtherReason]
//	watchdog.directive     wait, retry, unstuck or cancel
//	watchdog.observe_only  whether a cancel was recorded and not carried out
//	watchdog.layer         whether the run is a layer
//
// No metric has the ID of a run, and of hosts' own codes the first [MaxHostReasons] are kept apart, so that the number of series does not grow with what is run.
//
// A trip is counted by each process that guards the run while it happens: also a cancel that a sweeper decided on another host, but not one that was stored before the
// attach.
//
// # Spans
//
// Each attach is one span, watchdog.run, from the attach until the run's context ends. What is done in [Watchdog.Context] is its child. A stop is its status, an error
// described by the stop's code; any other end leaves the status unset. Its attributes are
//
//	watchdog.run.id       the run
//	watchdog.run.parent   the run that it is a layer of
//	watchdog.run.attempt  which attempt this is, where a [watchdog.Keeper] counts them
//	watchdog.run.end      stopped, closed, interrupted, or parent for the end of the context it was attached in
//	watchdog.reason       the code of the stop
//
// Each trip is an event, watchdog.trip, with the attributes of the metric and watchdog.trip.attempt, watchdog.used.ms and watchdog.allowed.ms.
//
// # What it costs
//
// A run costs some microseconds and two kilobytes besides its watchdog, nearly half of it the span, and no goroutine while it lasts. Signals cost what they cost without: only trips and ends
// are told, on goroutines of their own, or with [watchdog.Config].PollOnly on that which found the trip, where a slow span processor of the host's is felt.
//
// # What it does not do
//
// It exports no content: no note, no key of a hold or a call, no signal of an interrupt, no text of an error, in neither metrics nor spans. It does not set up OpenTelemetry,
// and neither flushes nor shuts down the host's providers; after they are shut down everything goes on and nothing is told. What ended while its trip was still being recorded is
// counted and may miss that trip in its span. A cancel that an attach itself finds due, and that is only observed, may be missed in both.
package otelwatchdog
