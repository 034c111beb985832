package watchdog

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/verdict"
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
	if err := w.r.extend(d); err != nil {
		return fmt.Errorf("extend run %s by %v: %w", w.r.node.Run, d, err)
	}
	return nil
}

func (r *run) extend(d time.Duration) error {
	began := clocks.Now(r.tree.clock.other)
	d, err := r.fits(d)
	if err != nil {
		return err
	}
	d = d.Truncate(time.Microsecond) // as its event says it
	event, err := r.newExtension(d)
	if err != nil {
		return err
	}
	found, err := r.recordExtension(event, d)
	if err != nil {
		return err
	}
	stop, err := r.adopt(&found, began)
	if stop != nil {
		return fmt.Errorf("%w: %w", ErrEnded, stop)
	}
	return err
}

// fits returns how much of an extension the run around a layer has left for it: all of it where there is none.
func (r *run) fits(d time.Duration) (time.Duration, error) {
	if r.outer == nil || d <= 0 {
		return d, nil
	}
	_ = r.poll() // a run that is late has ended
	var own time.Duration
	r.locked(func() { // first: what is left around may only be less by then
		own = verdict.Left(r.limits.Limits, *r.node.Seen(), r.elapsed())
	})
	around := r.outer.remainingAt(time.Now())
	if own == NoLimit || around == NoLimit || r.hasEnded() { // the last is for newExtension to say
		return d, nil
	}
	if room := around - own; room < d {
		d = room
	}
	if d < time.Microsecond {
		return 0, fmt.Errorf("%w extension: run %s has no more left; extend that first", ErrInvalid, r.outer.node.Run)
	}
	return d, nil
}

// newExtension checks the extension and returns its event.
func (r *run) newExtension(d time.Duration) (Event, error) {
	_ = r.poll() // a run that is late has ended
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	budget := r.node.Moment(r.now()).Budget
	switch {
	case r.node.Phase() != machine.Running:
		return Event{}, fmt.Errorf("%w: %w", ErrEnded, r.cause())
	case d <= 0:
		return Event{}, fmt.Errorf("%w extension: it has to be a microsecond or more", ErrInvalid)
	case budget == NoLimit:
		return Event{}, fmt.Errorf("%w extension: the run has no wall-clock limit", ErrInvalid)
	case verdict.Sum(budget, d) == NoLimit:
		return Event{}, fmt.Errorf("%w extension: %v and that is more than a duration can hold", ErrInvalid, budget)
	}
	return Event(r.node.Moment(r.now()).Extend(d, nil)), nil
}
