// Package watchdog ends runs that hang. It guards the main loop of a session: it cancels the run when it exceeds a
// limit, records why, durably and exactly once, and lets the host resume it.
//
// # A guarded run
//
// [Do] guards a main loop from its beginning to its end. The host passes the run's context to everything that it does
// in the run:
//
//	err := watchdog.Do(ctx, watchdog.Run{ID: s.ID}, watchdog.Config{Store: store},
//		func(ctx context.Context, wd *watchdog.Watchdog) error {
//			for _, phase := range phases {
//				if err := phase.Run(ctx); err != nil {
//					return err
//				}
//			}
//			return nil // the run is complete
//		})
//	if errors.Is(err, watchdog.ErrComplete) {
//		return nil // it was done before
//	}
//	if stop := watchdog.StopOf(err, s.ID); stop != nil {
//		return s.Block(stop.Code)
//	}
//	return err
//
// It is [New], which attaches a [Watchdog] to a run, [Watchdog.Complete] and [Watchdog.Close]. A host that has a main
// loop of another form calls them itself, and asks [Watchdog.Fired] at its phase boundaries:
//
//	wd, err := watchdog.New(ctx, watchdog.Run{ID: s.ID}, watchdog.Config{Store: store})
//	if errors.Is(err, watchdog.ErrComplete) {
//		return nil // the run is done
//	}
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
//	return wd.Complete()
//
// The host keeps the run's ID. Everything else is in the [EventStore], also when the run began, unless the host passes
// [Run].StartedAt. Without a Store the run is kept in memory, and the zero [Run] is one that begins now.
//
// [Watchdog.Complete] is the normal end of a run. It is recorded as [event.Complete], and of it and a cancel the first
// wins. A run that is complete never fires, however late it is attached: New returns an error that wraps [ErrComplete].
//
// # Limits
//
// A [Budget] holds the limits of a run. Exceeded means more than: at the limit itself the run has not fired. The wall
// clock is measured over a window that begins at the run's persisted start. It counts real time, across restarts and
// while the machine sleeps, and setting the clock does not change it. [Watchdog.Remaining] tells how much is left, a
// [Warning] that little is left, and [Watchdog.Extend] gives more.
//
// The other limits are off unless the budget sets them: how long the run may be silent (Idle), how long it may be busy
// and get nowhere (NoProgress), how long one hold may last (Hold), and how long the run may last from this attach,
// whatever happens (Safety). One function decides all of them, and one timer serves them.
//
// # What zero means
//
// In Go a limit of 0 is its documented default where there is one, and off where there is none:
//
//	                            | 0           | NoLimit | less than 0
//	Budget.WallClock            | four hours  | off     | an error
//	any other limit of a Budget | off         | off     | an error
//	a limit with a default      | the default | off     | an error
//	package idle                | off         | off     | off
//	a file or a variable        | off         | -       | an error
//
// In a file what is absent is the default. A length that can be none at all, such as a grace, takes [None] for that.
// What each field of each package says of it is in one table, docs/zero.md.
//
// # Signals
//
// A run gives signs of life where it has them. Call [Watchdog.Activity] for each token, and [Watchdog.Progress] or
// [Watchdog.ProgressDigest] where the work moved forward. [Watchdog.Observe] takes the host's own events instead. Deep
// code finds the watchdog in its context, with [FromContext]. Package watchdoghttp makes every chunk of an HTTP
// response activity.
//
// Where silence is expected, as in a tool call or a person's approval, [Watchdog.During] suspends Idle and NoProgress,
// and with PausesWallClock of its [HoldLimit] the wall clock, too. With Idle of that the run may not be silent for
// longer meanwhile either: a tool that streams lives, one that hangs does not.
//
// A host that is behind, with messages that wait, is not silent: it calls [Watchdog.Activity] while something waits.
//
// # Directives
//
// A limit can ask for something before it cancels. Its ladder, in [Ladders], says what each trip asks: [DirectiveWait],
// [DirectiveRetry] or [DirectiveUnstuck], and past the end of the ladder [DirectiveCancel]. A ladder that ends in
// DirectiveWait cancels nothing: it notifies once in each stretch of silence. The host takes directives with
// [Watchdog.Poll] or [Watchdog.Pending] at its phase boundaries, or as they come with [Watchdog.Subscribe].
//
// A call that hangs reaches no boundary. [Watchdog.Try] runs work under a context that ends when the run asks for it to
// be done again or in another way, with the [*Directive] as its cause, so that the host can do so at once.
//
// [DirectiveWrapUp] is in no ladder. It comes once, where only the Reserve of the [Budget] is left, and asks the host
// to return what it has. From then on [Watchdog.Remaining] counts to the limit itself.
//
// # Layers and single calls
//
// [Watchdog.Layer] guards a phase, a step or a tool in the run, within what is left of the run. Each begins afresh,
// whatever ran under its name before. Package bound runs one call that may ignore its context: after a limit and a
// grace its caller goes on without it.
//
// # Tuning
//
// With ObserveOnly in the [Config] everything is decided and recorded, and nothing is cancelled. With Disabled nothing
// is guarded, and the store is left alone.
//
// # What happens at a limit
//
// The watchdog appends the event first. Then it ends the context, with a [Stop] as its cause. It does so at the limit,
// also while the host is stuck and nobody polls. A store that fails or hangs delays this by at most the record
// timeout. An event that could not be recorded is appended again: by a timer, after a second and at last every half
// minute, at each poll, and by [Watchdog.Close], which returns the error if that never succeeded. With PollOnly in the
// [Config] there is no timer.
//
// # Other guards
//
// Another guard, such as the host's own, ends the run with [Watchdog.Cancel]. The rules are those of a limit: recorded
// first, exactly once. [Watchdog.Sync] reads from the store what other processes did to the run, such as a sweeper of
// package sweep, and adopts it: a cancel ends the run, an extension counts. A keeper of package session calls it when
// the database shows a cancel.
//
// # Two ways back
//
// Attaching again, after a crash or a restart, keeps the window. A run that was cancelled is fired from the start,
// with the stored stop. [Resume], which the host calls when a person asks to go on with a run that was cancelled or is
// complete, opens a fresh window. Both read the events of the run, so they are right even if the host crashed before it
// persisted anything.
//
// # Testing a host
//
// Everything runs on fake time. In a bubble of testing/synctest the config needs no change, and no clock of its own:
//
//	func TestHangingPhase(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			hang := func(ctx context.Context, _ *watchdog.Watchdog) error {
//				<-ctx.Done() // four hours of fake time
//				return ctx.Err()
//			}
//			err := watchdog.Do(t.Context(), watchdog.Run{}, watchdog.Config{}, hang)
//			if !errors.Is(err, watchdog.WallClockExceeded) {
//				t.Error("the run ended with", err)
//			}
//		})
//	}
//
// A test that moves the time by hand sets Clock in the [Config] to a mock clock of package watchdogtest, with PollOnly;
// it takes one of github.com/benbjohnson/clock, too. A [Memory] is a store for tests. Package event/eventtest tests a
// store of your own.
//
// # What it does not do
//
// A watchdog does not stop goroutines or processes: it ends a context, and work that ignores its context goes on. It
// keeps no output, arguments, environment, prompt or message. It does not restart or retry anything.
package watchdog
