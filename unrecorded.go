package watchdog

import (
	"context"
	"fmt"
	"slices"
)

// maxUnrecorded is how many events wait for a store that does not take them.
const maxUnrecorded = 64

// unrecorded are the stop and the directives that the store does not have yet. The run has ended, and the host was told, all the
// same; the append is tried again at every poll and at Close, so that a stop is never lost silently.
type unrecorded struct {
	events   []Event
	err      error // of the last try
	retrying bool
}

// keepUnrecorded keeps events for another try, the newest where there are too many. Run's stop is its last event, so it is never dropped.
func (w *Watchdog) keepUnrecorded(err error, events ...Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keepLocked(err, events...)
}

func (w *Watchdog) keepLocked(err error, events ...Event) {
	if w.unrecorded == nil {
		w.unrecorded = &unrecorded{}
	}
	all := append(w.unrecorded.events, events...)
	w.unrecorded.events, w.unrecorded.err = all[max(len(all)-maxUnrecorded, 0):], err
}

// retry tries again, without holding up the poll that asks for it.
func (w *Watchdog) retry() {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.unrecorded == nil || w.unrecorded.retrying:
	case w.pollOnly:
		w.mu.Unlock()
		defer w.mu.Lock()
		w.appendAgain()
	default:
		w.unrecorded.retrying = true
		w.background(w.appendAgain, func() {})
	}
}

// flush waits for what is being recorded, and makes the last try at what could not be.
func (w *Watchdog) flush() error {
	w.awaitBackground()
	w.appendAgain()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unrecorded == nil {
		return nil
	}
	last := w.unrecorded.events[len(w.unrecorded.events)-1]
	return fmt.Errorf("close watchdog of run %s: %d of its events are not recorded, the last a %s: %w",
		w.id, len(w.unrecorded.events), last.Type, w.unrecorded.err)
}

func (w *Watchdog) appendAgain() {
	if len(w.missing()) == 0 {
		return
	}
	_, err := exchange(w, func(ctx context.Context) (nothing, error) {
		events := w.missing()
		if err := w.store.Append(ctx, events...); err != nil {
			return nothing{}, fmt.Errorf("append events: %w", err)
		}
		w.recorded(events...)
		return nothing{}, nil
	})
	if err != nil {
		w.failedAgain(err)
	}
}

func (w *Watchdog) missing() []Event {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unrecorded == nil {
		return nil
	}
	return slices.Clone(w.unrecorded.events)
}

// recorded notes that the store has the events, also when it says so late.
func (w *Watchdog) recorded(events ...Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unrecorded == nil {
		return
	}
	w.unrecorded.events = slices.DeleteFunc(w.unrecorded.events, func(missing Event) bool {
		return slices.ContainsFunc(events, func(e Event) bool { return e.ID == missing.ID })
	})
	if w.unrecorded.retrying = false; len(w.unrecorded.events) == 0 {
		w.unrecorded = nil
	}
}

func (w *Watchdog) failedAgain(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.unrecorded != nil {
		w.unrecorded.err, w.unrecorded.retrying = err, false
	}
}
