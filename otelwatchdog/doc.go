// Package otelwatchdog exports what the watchdog and the sweeper do to OpenTelemetry: metrics for all runs of a
// process, and a span for each run. It is a module of its own, so that other hosts have no OpenTelemetry in their
// go.mod.
//
// # Use
//
// One [Instrument] serves the whole process. Replace [watchdog.New] with [Instrument.Attach]: it returns the same
// watchdog, whose run is measured:
//
//	instrument, err := otelwatchdog.New(otelwatchdog.Config{})
//	...
//	wd, err := instrument.Attach(ctx, watchdog.Run{ID: s.ID, StartedAt: s.StartedAt}, watchdog.Config{Store: store})
//	if err != nil {
//		return err
//	}
//	defer wd.Close()
//
// [Instrument.Resume] replaces [watchdog.Resume], [Watchdog.Layer] measures a layer, [Instrument.Calls] the calls that
// [bound.Do] abandons, and [Instrument.Pass] the passes of a sweeper. The commands of [stall.Run] are measured in the
// context of a measured run, and for commands outside of a run in that of [Instrument.Commands].
//
// # Metrics
//
// Of live watchdogs:
//
//	name                        kind             unit     what
//	watchdog.runs.live          up-down counter  {run}    runs that have not ended
//	watchdog.trips.total        counter          {trip}   trips of limits, and cancels of other guards
//	watchdog.lateness.ms        histogram        ms       time from a limit until its trip was found
//	watchdog.calls.abandoned    counter          {call}   bounded calls that were abandoned
//	watchdog.calls.outstanding  up-down counter  {call}   abandoned calls that have not ended
//
// Of the counted limits of live runs, see [watchdog.Spend]:
//
//	name                      kind     unit    what
//	watchdog.spend.used       gauge    {unit}  what was settled
//	watchdog.spend.admitted   gauge    {unit}  what open calls may use besides
//	watchdog.spend.allowed    gauge    {unit}  the limits, with their extensions
//	watchdog.spend.refused    counter  {call}  calls that did not fit
//
// The unit is what the limit counts: tokens, calls, or micro-units of a currency. The gauges add up what live runs
// have. Each [watchdog.Refused] counts, and so does a call that a run with ObserveOnly made though it did not fit. A
// limit of a layer is reported from its first call on.
//
// Of sweepers whose [sweep.Config].OnPass is [Instrument.Pass]:
//
//	name                        kind       unit       what
//	watchdog.checks.total       counter    {pass}     passes
//	watchdog.sessions.checked   counter    {session}  sessions that were judged
//	watchdog.sessions.found     counter    {session}  judged sessions that are stalled
//	watchdog.sessions.canceled  counter    {session}  stalled sessions that were cancelled
//	watchdog.sessions.host_lost  counter   {session}  cancelled sessions whose process was found dead or cut off
//	watchdog.sessions.spared    counter    {session}  stalled sessions that woke up or ended before their cancel
//	watchdog.sessions.failed    counter    {session}  stalled sessions that could not be warned or cancelled
//	watchdog.sessions.warned    counter    {session}  stalled sessions that were warned first
//	watchdog.sessions.resumed   counter    {session}  starts of cancelled sessions that succeeded
//	watchdog.sessions.end_stored  counter  {session}  sessions that had ended before, which only their rows did not say
//	watchdog.sessions.behind    gauge      {session}  sessions whose run woke up and whose row its process cannot write,
//	                                                  at the last pass
//	watchdog.leases.expired     counter    {lease}    processes that were found dead or cut off
//	watchdog.errors.total       counter    {error}    errors in passes
//	watchdog.duration.ms        histogram  ms         duration of a pass
//
// Those have no attributes. Live runs have the attribute watchdog.layer: whether the run is a layer of another. Trips
// and their lateness have these:
//
//	watchdog.reason        the code of the limit or guard, see [watchdog.StopReasons], the host's own, or [OtherReason]
//	watchdog.directive     wait, retry, unstuck, wrap_up or cancel
//	watchdog.observe_only  whether a cancel was only recorded
//	watchdog.layer         whether the run is a layer
//
// Counted limits have watchdog.layer and these, where they are not empty:
//
//	watchdog.limit     what it counts, such as tokens or cost, see [watchdog.Usage]
//	watchdog.tool      the tool, of a limit of one tool
//	watchdog.currency  the currency of a cost
//
// No metric has the ID of a run, and only the first [MaxHostReasons] codes of the host's own have series of their
// own: the number of series does not grow with the number of runs. It does grow with the number of tools that the
// host's limits name.
//
// Each process that guards the run counts a trip while it happens: also a cancel by a sweeper on another host, but not
// one that was stored before the attach.
//
// # Spans
//
// Each attach is one span, watchdog.run, from the attach until the run's context ends. Spans that begin in
// [Watchdog.Context] are its children. After a stop its status is an error with the stop's code; otherwise the status
// is unset. Its attributes are
//
//	watchdog.run.id       the run
//	watchdog.run.parent   the run that it is a layer of
//	watchdog.run.attempt  the number of the attempt, if a [watchdog.Keeper] counts them
//	watchdog.run.end      stopped, closed, interrupted, or parent if the context of the attach ended
//	watchdog.reason       the code of the stop
//
// Each trip is an event, watchdog.trip, with the attributes of the metric and watchdog.trip.attempt, watchdog.used.ms
// and watchdog.allowed.ms; that of a counted limit has, in place of the times, the attributes of the limit and
// watchdog.spend.used, watchdog.spend.admitted, watchdog.spend.allowed and watchdog.spend.needed, which is what the
// refused call may use.
//
// # What it costs
//
// An instrument adds some microseconds and two kilobytes to a run, nearly half of them for the span, and no goroutine
// while it lasts. Signals and admissions cost the same as without; a collection asks each live run how far its counted
// limits are used. Only trips and ends are exported, on goroutines of their own; with [watchdog.Config].PollOnly on the
// goroutine that found the trip, which a slow span processor delays.
//
// # What it does not do
//
// It exports no content: no note, no key of a hold or a call, no signal of an interrupt and no error text. It does
// not set up OpenTelemetry, and neither flushes nor shuts down the host's providers; after their shutdown runs go on
// unmeasured. If a run ends while its trip is still being recorded, the trip is counted but may be missing in the
// span. A due cancel that an attach finds, and that is only observed, may be missing in both.
package otelwatchdog
