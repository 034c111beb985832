package watchdog

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
)

// A Watchdog guards one run in this process. It ends the run's context when a limit is exceeded, also while the host is
// stuck, records why, and tells the host at its next poll. Make one with [New] or [Resume] and end it with
// [Watchdog.Close]. While armed it is one entry in a timer's list and no goroutine.
//
// All methods are safe for concurrent use. All work on a nil Watchdog, which [FromContext] returns where there is no
// run: it has no limit, it never fires, and what cannot be done without a run returns an error that wraps [ErrEnded].
type Watchdog struct{ r run }

// Context returns the run's context, for everything that is done in the run. It ends when a limit is exceeded or
// another guard cancels the run, with the [Stop] as its cause; when the parent ends, with the parent's cause; after
// [Watchdog.Interrupt], with the [Interruption]; after [Watchdog.Complete], with [ErrComplete]; and after
// [Watchdog.Close], with [ErrClosed]. Its deadline is the parent's, because that of the run can be extended. That of a
// nil Watchdog is [context.Background].
func (w *Watchdog) Context() context.Context {
	if w == nil {
		return context.Background()
	}
	return (*runContext)(w)
}

// ID returns the run's ID, a random one where the host gave none. It is empty for a nil Watchdog.
func (w *Watchdog) ID() string {
	if w == nil {
		return ""
	}
	return w.r.Node.Run
}

// Parent returns the ID of the run that this one is a layer of, empty for a run of its own and a nil Watchdog.
func (w *Watchdog) Parent() string {
	if w == nil {
		return ""
	}
	return w.r.Node.Parent
}

// StartedAt returns the start of the window, in UTC to the microsecond. After [Resume] it can be later than what the
// host passed: persist it. It is zero for a nil Watchdog.
func (w *Watchdog) StartedAt() time.Time {
	if w == nil {
		return time.Time{}
	}
	return w.r.Node.StartedAt
}

// Fired reports whether a limit or another guard stopped the run, and which: the host asks at its phase boundaries. It
// reads the clock, so that it is right also without a timer (see [Config].PollOnly). While a stop is being recorded it
// waits for that, at most the record timeout, and it tries again to record what could not be. One that finds a silence
// too long waits for [Config].Busy before, at most [BusyTimeout]. A run that ended in another way has not fired, nor
// has a nil Watchdog. A run that has not fired costs little more than reading the clock, and no allocation.
func (w *Watchdog) Fired() (StopReason, bool) {
	if w == nil || w.r.Quiet() {
		return "", false
	}
	if stop := w.r.poll(); stop != nil {
		return stop.Code, true
	}
	return "", false
}

// Stop returns the run's stop, nil while it has not fired. It looks as [Watchdog.Fired] does. A nil Watchdog has none.
func (w *Watchdog) Stop() *Stop {
	if w == nil || w.r.Quiet() {
		return nil
	}
	return w.r.poll()
}

// Elapsed returns the real time since the window's start, with the time that the process was not running, the machine
// slept and holds stopped the wall clock. It never runs back. It is 0 for a nil Watchdog.
func (w *Watchdog) Elapsed() time.Duration {
	if w == nil {
		return 0
	}
	w.r.Lock()
	defer w.r.Unlock()
	return w.r.Elapsed()
}

// Remaining returns how long the run may still work: what is left of its wall clock, until the [DirectiveWrapUp] less
// the reserve, at least 0, and 0 once it has ended. Without a wall-clock limit, and for a nil Watchdog, it is
// [NoLimit].
func (w *Watchdog) Remaining() time.Duration {
	if w == nil {
		return NoLimit
	}
	return w.r.RemainingAt(time.Now())
}

// Close ends the watching. A run that has not ended otherwise ends by it, without an event; its context's cause is
// [ErrClosed]. If an event of the run could not be recorded yet, or what a call used beyond its admission could not be
// charged ([Charge.Settle]), Close tries once more and returns the error if that fails; it can be called again to try
// again, and nothing else does any more. Otherwise, and for a nil Watchdog, it returns nil. It waits at most twice the
// record timeout.
func (w *Watchdog) Close() error {
	if w == nil {
		return nil
	}
	began := clocks.Now(w.r.Tree.Clock)
	w.r.Record.Close()
	if w.r.Close(ErrClosed) && w.r.more == nil && w.r.account.Load() == nil { // nearly always
		return nil
	}
	if err := w.r.close(began); err != nil {
		return fmt.Errorf("close watchdog of run %s: %w", w.r.Node.Run, err)
	}
	return nil
}
