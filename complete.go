package watchdog

import (
	"fmt"

	"github.com/seed62658d38/watchdog/internal/clocks"
)

// Complete says that the run has done its work. It is recorded as [EventComplete], once, and then the run's context and
// its open layers end, with [ErrComplete] as the cause. A complete run never fires, whoever attaches to it and however
// late: New wraps [ErrComplete]. Resume opens a fresh window, to go on with it all the same. Call it before
// [Watchdog.Close].
//
// The first cause wins: if a limit was exceeded or another process cancelled the run before, Complete returns an error
// that wraps [ErrEnded] and the [Stop]. It wraps [ErrEnded] also if the run ended otherwise, or for a nil Watchdog. If
// the store fails or does not answer within the record timeout, Complete returns its error, the run goes on, and
// Complete can be called again; the store may keep the event after all. A run that is complete already is no error.
func (w *Watchdog) Complete() error {
	if w == nil {
		return fmt.Errorf("complete: %w", errNoRun)
	}
	if err := w.completeRun(); err != nil {
		return fmt.Errorf("complete run %s: %w", w.id, err)
	}
	return nil
}

func (w *Watchdog) completeRun() error {
	began := clocks.Now(w.clock.other)
	_ = w.poll() // a run that is late has ended
	n := &news{}
	defer w.tellSince(began, n)
	t := w.decideComplete(n)
	if t == nil {
		return w.completeEnding()
	}
	if err := w.carryOutComplete(t, n); err != nil {
		return err
	}
	w.tellKeeper(began)
	return w.completeEnding()
}

// completeEnding is nil for a run that is complete, or an error that says how it ended.
func (w *Watchdog) completeEnding() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.complete {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrEnded, w.cause())
}
