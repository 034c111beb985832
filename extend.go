package watchdog

import (
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
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
		return fmt.Errorf("extend run %s by %v: %w", w.r.Node.Run, d, err)
	}
	return nil
}

func (r *run) extend(d time.Duration) error {
	began := clocks.Now(r.Tree.Clock)
	d, err := r.fits(d)
	if err != nil {
		return err
	}
	d = d.Truncate(time.Microsecond) // as its event says it
	event, err := r.newExtension(d)
	if err != nil {
		return err
	}
	found, err := r.Record.RecordExtension(event, d)
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
	if r.Outer() == nil || d <= 0 {
		return d, nil
	}
	_ = r.poll() // a run that is late has ended
	var own time.Duration
	r.Locked(func() { own = r.Node.Left(r.Elapsed()) }) // first: what is left around may only be less by then
	around := r.Outer().RemainingAt(time.Now())
	if own == NoLimit || around == NoLimit || r.Over() { // the last is for newExtension to say
		return d, nil
	}
	if room := around - own; room < d {
		d = room
	}
	if d < time.Microsecond {
		return 0, fmt.Errorf("%w extension: run %s has no more left; extend that first", ErrInvalid, r.Outer().Node.Run)
	}
	return d, nil
}

// newExtension checks the extension and returns its event.
func (r *run) newExtension(d time.Duration) (fold.Event, error) {
	_ = r.poll() // a run that is late has ended
	r.Lock()
	defer r.Unlock()
	budget := r.Node.Budget()
	switch {
	case r.Node.Phase() != machine.Running:
		return fold.Event{}, fmt.Errorf("%w: %w", ErrEnded, r.Cause())
	case d <= 0:
		return fold.Event{}, fmt.Errorf("%w extension: it has to be a microsecond or more", ErrInvalid)
	case budget == NoLimit:
		return fold.Event{}, fmt.Errorf("%w extension: the run has no wall-clock limit", ErrInvalid)
	case verdict.Sum(budget, d) == NoLimit:
		return fold.Event{}, fmt.Errorf("%w extension: %v and that is more than a duration can hold", ErrInvalid, budget)
	}
	return r.Node.Extend(r.Now(), d, nil), nil
}
