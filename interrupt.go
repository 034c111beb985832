package watchdog

import (
	"fmt"

	"github.com/seed62658d38/watchdog/internal/clocks"
)

// maxSignal is how long the name of a signal may be.
const maxSignal = 100

// An Interruption is the cause of a run's context after [Watchdog.Interrupt]. It must not be changed.
type Interruption struct {
	// RunID is the run, By what the host said had ended it.
	RunID, By string
}

// Error says which run was interrupted and by what.
func (i *Interruption) Error() string {
	return fmt.Sprintf("run %s interrupted by %s", i.RunID, i.By)
}

// Interrupt ends the run for a reason from outside, such as "SIGINT" or "shutdown": at once, with an [Interruption] as
// the cause of its context. Then it records that as [EventInterrupt]. It is not a stop: the run has not fired, and
// attaching again continues its window. The signal is written to the event; it must not hold anything secret.
//
// The error wraps [ErrInvalid] for a signal that is empty, has control characters or more than 100 characters;
// [ErrEnded] if the run has ended already, or for a nil Watchdog (nothing is recorded then); or the store's error, with
// the run ended.
func (w *Watchdog) Interrupt(signal string) error {
	if w == nil {
		return fmt.Errorf("interrupt: %w", errNoRun)
	}
	if err := w.r.interrupt(signal); err != nil {
		return fmt.Errorf("interrupt run %s: %w", w.r.node.Run, err)
	}
	return nil
}

func (r *run) interrupt(signal string) error {
	if flaw := textFlaw(signal, maxSignal); flaw != "" {
		return fmt.Errorf("%w signal: it %s", ErrInvalid, flaw)
	}
	began := clocks.Now(r.tree.clock.other)
	ended := r.endRunning(&Interruption{r.node.Run, signal})
	told := r.tellAside()
	defer func() { r.tree.awaitSince(began, told) }()
	if !ended {
		return fmt.Errorf("%w: %w", ErrEnded, r.cause())
	}
	return r.append(r.interruptEvent(signal, ""))
}

// interruptEvent says that the signal ended the run now. An empty name makes an event of its own.
func (r *run) interruptEvent(signal, name string) (e Event) {
	r.locked(func() { e = Event(r.node.Moment(r.now()).Interrupt(signal, name)) })
	return e
}
