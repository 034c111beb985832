package watchdog

import (
	"fmt"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
)

// Complete says that the run has done its work. It is recorded as [EventComplete], once, and then the run's context and
// its open layers end, with [ErrComplete] as the cause. A complete run never fires, whoever attaches to it and however
// late: New wraps [ErrComplete]. Resume opens a fresh window, to go on with it all the same. Call it before
// [Watchdog.Close].
//
// The first cause wins: if a limit was exceeded or another process cancelled the run before, Complete returns an error
// that wraps [ErrEnded] and the [Stop]. It wraps [ErrEnded] also if the run ended otherwise, or for a nil Watchdog. If
// the store fails or does not answer within the record timeout, Complete returns its error, the run goes on, and
// Complete can be called again; the store may keep the event after all. Calls at once share one try, and its error. A
// run that is complete already is no error.
func (w *Watchdog) Complete() error {
	if w == nil {
		return fmt.Errorf("complete: %w", errNoRun)
	}
	if err := w.completeRun(); err != nil {
		return fmt.Errorf("complete run %s: %w", w.id, err)
	}
	return nil
}

// commandEnd is how the run's command ended, as far as its host said so. The caller holds mu.
func (w *Watchdog) commandEnd() record.CommandEnd {
	if w.more == nil {
		return record.CommandEnd{}
	}
	return w.more.command
}

func (w *Watchdog) completeRun() error {
	began, before := clocks.Now(w.clock.other), w.failedBefore()
	_ = w.poll() // a run that is late has ended
	n := &news{}
	defer w.tellSince(began, n)
	t, err := w.decideComplete(before)
	switch {
	case err != nil:
		return err
	case t == nil:
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

// failedCompletes are the tries to record that the run is complete which failed: how many, and the last one's error.
// The store may have kept the event of each.
type failedCompletes struct {
	tries int
	err   error
}

// failedBefore returns how many tries have failed. A later try that fails is shared by all calls that waited for it: if
// each of them tried by itself, the last would wait for all.
func (w *Watchdog) failedBefore() (tries int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed().tries
}

// failed returns the tries that failed. The caller holds mu.
func (w *Watchdog) failed() failedCompletes {
	if w.more == nil {
		return failedCompletes{}
	}
	return w.more.failed
}

// noteFailed notes a try that failed, before it is over.
func (w *Watchdog) noteFailed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.extras().failed = failedCompletes{w.failed().tries + 1, err}
}
