// Package watchdog ends runs that hang: it guards a session's main loop, cancels it when it exceeds its limits, records why,
// durably and exactly once, and lets it be resumed.
//
// # A guarded run
//
// [New] attaches a [Watchdog] to a run and gives it a context. The host passes that context to everything it does in the run
// and asks [Watchdog.Fired] at its phase boundaries:
//
//	wd, err := watchdog.New(ctx, watchdog.Run{ID: s.ID, StartedAt: s.StartedAt}, watchdog.Config{Store: store})
//	if err != nil {
//		return err
//	}
//	defer wd.Close()
//
//	for _, phase := range phases {
//		if reason, fired := wd.Fired(); fired {
//			return s.Block(reason)
//		}
//		if err := phase.Run(wd.Context()); err != nil {
//			return err
//		}
//	}
//
// The host keeps two things: the run's ID and its start. Everything else is in the [EventStore].
//
// # Limits
//
// A [Budget] holds them. Exceeded means more than. The wall clock is measured over a window that begins at the run's persisted start;
// it counts real time, across restarts, with the time the machine slept, whatever is done to the clock. [Watchdog.Remaining]
// tells how much is left, a [Warning] that it gets scarce, and [Watchdog.Extend] gives more.
//
// Besides it a run can be limited in how long it is silent (Idle), busy without getting anywhere (NoProgress), in one hold, and from this
// attach whatever happens (Safety). All are decided by one function and share one timer.
//
// # Signals
//
// The run gives signs of life where it has them: [Watchdog.Activity] per token, [Watchdog.Progress] or
// [Watchdog.ProgressDigest] where the work moved forward, [Watchdog.Observe] for a stream of the host's own events, and package
// watchdoghttp for the chunks of an HTTP response. Deep code finds the watchdog in its context with [FromContext]. Where silence is
// expected, in a tool call or a person's approval, [Watchdog.During] holds the two limits that heed signals.
//
// # Directives
//
// A limit can ask for less than a cancel first. Its ladder ([Ladders]) says what each trip gives: [DirectiveWait], [DirectiveRetry],
// [DirectiveUnstuck], and past its end [DirectiveCancel]. The host takes directives with [Watchdog.Poll] at its phase boundaries, or as they come with
// [Watchdog.Subscribe].
//
// # Layers and single calls
//
// [Watchdog.Layer] guards a phase, a step or a tool inside the run, within what is left of it. Package bound runs one call that may
// ignore its context: past a soft limit and a grace the caller has its answer.
//
// # Tuning
//
// With [Config].ObserveOnly everything is decided and recorded and nothing is cancelled; [Config].OnSignal keeps a trace, and
// package replay decides it again under other limits.
//
// # What happens at a limit
//
// The event is appended first, then the context ends, with a [Stop] as its cause: also while the host is stuck, without a poll. A
// store that fails or hangs delays that by at most the record timeout; what could not be recorded is tried again until
// [Watchdog.Close], which returns the error if it never was.
//
// # Other guards
//
// [Watchdog.Cancel] ends the run for what another guard has decided, such as that of a command that hangs or the host's own, in the same way:
// recorded first, exactly once. What was decided in another process reaches a live run by [Watchdog.Sync].
//
// # Two ways back
//
// Attaching again, after a crash or a restart, keeps the window: a run that was cancelled is fired from the start, with the
// stored stop. [Resume], which the host calls when a person asks for it, opens a fresh window. Both are folded from the events, so that
// they are right also where the host crashed before it persisted anything.
//
// # Testing a host
//
// Everything runs on fake time: on the clock of a testing/synctest bubble as it is, or on a mock clock in [Config]. A [Memory] is the
// store of a test; package storetest proves a store of one's own.
//
// # What it does not do
//
// A watchdog does not stop goroutines or processes: it ends a context, and work that does not look at its context goes on.
// It keeps no output, arguments, environment, prompt or message. It does not restart or retry anything.
package watchdog
