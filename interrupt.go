package watchdog

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// maxSignal is how long the name of a signal may be.
const maxSignal = 100

// An Interruption is the cause of a run's context after [Watchdog.Interrupt]. It must not be changed.
type Interruption struct {
	// RunID is the run, Signal what the host said had ended it.
	RunID, Signal string
}

// Error says which run was interrupted and by what.
func (i *Interruption) Error() string {
	return fmt.Sprintf("run %s interrupted by %s", i.RunID, i.Signal)
}

// Interrupt ends the run for a reason from outside, such as "SIGINT" or "shutdown": at once with an [Interruption] as
// the cause of its context, then recorded as [EventInterrupt]. It is not a stop: the run has not fired, and attaching again goes on with its
// window. The signal is written to the event; it must not hold anything secret.
//
// It wraps [ErrInvalid], [ErrEnded] where the run has ended already (nothing is recorded then), or the store's
// error, with the run ended.
func (w *Watchdog) Interrupt(signal string) error {
	if err := w.interrupt(signal); err != nil {
		return fmt.Errorf("interrupt run %s: %w", w.id, err)
	}
	return nil
}

func (w *Watchdog) interrupt(signal string) error {
	if flaw := textFlaw(signal, maxSignal); flaw != "" {
		return fmt.Errorf("%w signal: it %s", ErrInvalid, flaw)
	}
	if !w.endRunning(&Interruption{w.id, signal}) {
		return fmt.Errorf("%w: %w", ErrEnded, w.cause())
	}
	return w.recordInterrupt(signal)
}

// cause is why the run's context has ended, or is about to.
func (w *Watchdog) cause() error {
	if cause := context.Cause(w.inner); cause != nil {
		return cause
	}
	return context.Canceled
}

func (w *Watchdog) recordInterrupt(signal string) error {
	return w.append(w.interruptEvent(signal))
}

func (w *Watchdog) interruptEvent(signal string) Event {
	w.mu.Lock()
	at, elapsed := w.clock.now(), w.clock.elapsed()
	w.mu.Unlock()
	return w.newEvent(EventInterrupt, at, "", w.interrupted(signal, at, elapsed))
}

func (w *Watchdog) interrupted(signal string, at time.Time, elapsed time.Duration) interruptPayload {
	return interruptPayload{
		Signal: signal, SessionStartedAt: stamp(w.startedAt), InterruptedAt: stamp(at),
		ElapsedSeconds: wholeSeconds(elapsed), Parent: w.parentID,
	}
}

// recordParentEnd records that the parent ended the run, by its error and not by its cause, whose text is the host's.
func (w *Watchdog) recordParentEnd() {
	signal := "parent_canceled"
	if errors.Is(w.parent.Err(), context.DeadlineExceeded) {
		signal = "parent_deadline_exceeded"
	}
	if err := w.recordInterrupt(signal); err != nil {
		w.log().Error("watchdog could not record an interrupt", "run", w.id, "signal", signal, "error", err)
	}
}
