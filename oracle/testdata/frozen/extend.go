package watchdog

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// Extend gives the running window d more, in whole microseconds, recorded as [EventExtend] before it counts. Other
// processes that watch the run learn of it when they look at the store: at the latest when the old budget is used up
// there. A layer gets at most what the run around it has left.
//
// The error wraps [ErrInvalid] if d is less than a microsecond, if the budget gets longer than a duration can be, if
// the run has no wall-clock limit, or if the run around a layer has no more left; [ErrEnded] if the run has ended
// (resume it instead), also by a cancel that the store has from elsewhere, which then ends this run, too, or for a
// nil Watchdog; or the store's error. Then the window is as before, unless the store was too slow to answer and keeps
// the event after all.
func (w *Watchdog) Extend(d time.Duration) error {
	if w == nil {
		return fmt.Errorf("extend by %v: %w", d, errNoRun)
	}
	if err := w.extend(d); err != nil {
		return fmt.Errorf("extend run %s by %v: %w", w.id, d, err)
	}
	return nil
}

func (w *Watchdog) extend(d time.Duration) error {
	began := clocks.Now(w.clock.other)
	d, err := w.fits(d)
	if err != nil {
		return err
	}
	d = d.Truncate(time.Microsecond) // as its event says it
	event, err := w.newExtension(d)
	if err != nil {
		return err
	}
	found, err := w.recordExtension(event, d)
	if err != nil {
		return err
	}
	stop, err := w.adopt(&found, began)
	if stop != nil {
		return fmt.Errorf("%w: %w", ErrEnded, stop)
	}
	return err
}

// fits returns how much of an extension the run around a layer has left for it: all of it where there is none.
func (w *Watchdog) fits(d time.Duration) (time.Duration, error) {
	if w.outer == nil || d <= 0 {
		return d, nil
	}
	_ = w.poll()    // a run that is late has ended
	own := w.left() // first: what is left around may only be less by then
	around := w.outer.Remaining()
	if own == NoLimit || around == NoLimit || w.hasEnded() { // the last is for newExtension to say
		return d, nil
	}
	if room := around - own; room < d {
		d = room
	}
	if d < time.Microsecond {
		return 0, fmt.Errorf("%w extension: run %s has no more left; extend that first", ErrInvalid, w.outer.id)
	}
	return d, nil
}

// left is what is left of the wall clock, with the reserve.
func (w *Watchdog) left() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return verdict.Left(w.limits.Limits, w.seen, w.clock.elapsed())
}

// newExtension checks the extension and returns its event.
func (w *Watchdog) newExtension(d time.Duration) (Event, error) {
	_ = w.poll() // a run that is late has ended
	w.mu.Lock()
	defer w.mu.Unlock()
	budget := verdict.Sum(w.limits.WallClock, w.seen.Extended)
	switch {
	case w.phase != running:
		return Event{}, fmt.Errorf("%w: %w", ErrEnded, w.cause())
	case d <= 0:
		return Event{}, fmt.Errorf("%w extension: it has to be a microsecond or more", ErrInvalid)
	case budget == NoLimit:
		return Event{}, fmt.Errorf("%w extension: the run has no wall-clock limit", ErrInvalid)
	case verdict.Sum(budget, d) == NoLimit:
		return Event{}, fmt.Errorf("%w extension: %v and that is more than a duration can hold", ErrInvalid, budget)
	}
	return w.extendEvent(d, budget), nil
}

// extendTo lets the timer look, and starts the warnings and the wrap-up again if there is more time. The caller holds
// mu and has seen the run running.
func (w *Watchdog) extendTo(extended time.Duration) {
	if extended > w.seen.Extended {
		w.tracing(Signal{Kind: SignalExtend, Length: extended - w.seen.Extended})
		w.seen.Extended, w.seen.Warned, w.seen.Wrapped = extended, 0, false
	}
	w.lookSoon()
}

func (w *Watchdog) extension() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen.Extended
}
