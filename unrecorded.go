package watchdog

import (
	"context"
	"fmt"
)

// unrecorded is a cancel event that the store does not have yet. The run has ended all the same; the append is tried
// again at every poll and at Close, so that a stop is never lost silently.
type unrecorded struct {
	event    Event
	err      error // of the last try
	retrying bool
}

// retry tries again, without holding up the poll that asks for it.
func (w *Watchdog) retry() {
	if w.pollOnly {
		w.appendAgain()
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unrecorded != nil && !w.unrecorded.retrying {
		w.unrecorded.retrying = true
		w.background(w.appendAgain, func() {})
	}
}

// flush waits for what is being recorded, and makes the last try at a stop that could not be.
func (w *Watchdog) flush() error {
	w.awaitBackground()
	w.appendAgain()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unrecorded == nil {
		return nil
	}
	return fmt.Errorf("close watchdog of run %s: its stop is not recorded: %w", w.id, w.unrecorded.err)
}

func (w *Watchdog) appendAgain() {
	missing := w.missing()
	if missing == nil {
		return
	}
	_, err := exchange(w, func(ctx context.Context) (nothing, error) {
		if w.missing() == nil {
			return nothing{}, nil
		}
		if err := w.store.Append(ctx, missing.event); err != nil {
			return nothing{}, fmt.Errorf("append cancel event: %w", err)
		}
		w.recorded()
		return nothing{}, nil
	})
	if err != nil {
		w.failedAgain(err)
	}
}

func (w *Watchdog) missing() *unrecorded {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.unrecorded
}

// recorded notes that the store has the run's stop, also when it says so late.
func (w *Watchdog) recorded() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unrecorded = nil
}

func (w *Watchdog) failedAgain(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unrecorded != nil {
		w.unrecorded = &unrecorded{event: w.unrecorded.event, err: err}
	}
}
