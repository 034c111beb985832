package watchdog

import (
	"fmt"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/event"
	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// Extend gives the running window d more, in whole microseconds, recorded as [event.Extend] before it counts. Other
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
	began := clocks.Now(w.r.Tree.Clock)
	given, err := w.r.fits(d)
	if err == nil {
		given = given.Truncate(time.Microsecond) // as its event says it
		err = w.r.recordExtension(began, given, nil, func(m machine.Moment) (event.Event, error) {
			return extensionBy(given, m)
		})
	}
	if err != nil {
		return fmt.Errorf("extend run %s by %v: %w", w.r.Node.Run, d, err)
	}
	return nil
}

// recordExtension has the window given more by the event that the node makes, if the run has not ended.
func (r *run) recordExtension(
	began time.Time, d time.Duration, total map[fold.Key]int64, newEvent func(machine.Moment) (event.Event, error),
) (err error) {
	_ = r.poll() // a run that is late has ended
	var e event.Event
	r.Locked(func() {
		if r.Node.Phase() != machine.Running {
			err = r.errEnded()
			return
		}
		e, err = newEvent(r.Node.Moment(r.Now()))
	})
	if err != nil {
		return err
	}
	found, err := r.Record.RecordExtension(e, d)
	if err != nil {
		return err
	}
	if !found.Over() {
		found.Give(total)
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
	r.Locked(func() { // first: what is left around may only be less by then
		own = verdict.Left(r.limits.Limits, *r.Node.Seen(), r.Elapsed())
	})
	around := r.Outer().RemainingAt(time.Now())
	exceeded := r.Node.ObserveOnly && around == 0
	if own == NoLimit || around == NoLimit || exceeded || r.Over() { // the last is for newExtension to say
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

// extensionBy checks the extension and returns its event.
func extensionBy(d time.Duration, m machine.Moment) (event.Event, error) {
	switch {
	case d <= 0:
		return event.Event{}, fmt.Errorf("%w extension: it has to be a microsecond or more", ErrInvalid)
	case m.Budget == NoLimit:
		return event.Event{}, fmt.Errorf("%w extension: the run has no wall-clock limit", ErrInvalid)
	case verdict.Sum(m.Budget, d) == NoLimit:
		return event.Event{}, fmt.Errorf("%w extension: %v and that is more than a duration can hold", ErrInvalid, m.Budget)
	}
	return m.Extend(d, nil), nil
}

// ExtendSpend gives counted limits of the running run more, each by what its field says, recorded as [event.Extend]
// before it counts. Warnings and the reserve of such a limit begin again, and so does its ladder.
//
// The error wraps [ErrInvalid] if nothing is extended, if a number is negative, if Reserve, WarnAt or Used is set, or
// if the run has no such limit; [ErrEnded] if the run has ended, or for a nil Watchdog; or it is the store's error.
// Then the limits are as before, unless the store was too slow to answer and keeps the event after all. A run that is
// disabled has no limits, and nothing is done.
func (w *Watchdog) ExtendSpend(more Spend) error {
	switch {
	case w == nil:
		return fmt.Errorf("extend spend: %w", errNoRun)
	case w.r.Node.Disabled:
		return nil
	}
	given, err := w.r.limits.givenBy(&more)
	if err == nil {
		err = w.r.extendSpend(given)
	}
	if err != nil {
		return fmt.Errorf("extend spend of run %s: %w", w.r.Node.Run, err)
	}
	return nil
}

func (r *run) extendSpend(given map[fold.Key]int64) error {
	total := map[fold.Key]int64{}
	return r.recordExtension(clocks.Now(r.Tree.Clock), 0, total, func(m machine.Moment) (event.Event, error) {
		return m.Extend(0, r.extended(given, total)), nil
	})
}

// givenBy returns how much more each limit gets.
func (l *sharedLimits) givenBy(more *Spend) (given map[fold.Key]int64, err error) {
	if more.Reserve != (Totals{}) || more.WarnAt != nil || more.Used != nil {
		return nil, fmt.Errorf("%w extension: Reserve, WarnAt and Used cannot be extended; leave them out", ErrInvalid)
	}
	given = map[fold.Key]int64{}
	for one := range more.listed() {
		key := fold.CountKey(one.kind.String(), one.tool)
		switch {
		case one.max == 0:
			continue
		case one.max < 0:
			return nil, fmt.Errorf("%w extension: %s is %d; use a positive number", ErrInvalid, one.name(), one.max)
		case !slices.ContainsFunc(l.Counts, func(c verdict.CountLimit) bool { return machine.KeyOfCount(&c) == key }):
			return nil, fmt.Errorf("%w extension: the run has no limit of %s", ErrInvalid, one.name())
		}
		given[key] = one.max
	}
	if len(given) == 0 {
		return nil, fmt.Errorf("%w extension: it has no limit", ErrInvalid)
	}
	return given, nil
}

// extended returns the limits as they are when they are given more, and sets what they have been given in all by then.
// The caller holds the lock.
func (r *run) extended(given, total map[fold.Key]int64) (spend []record.Spend) {
	a := r.accountOf()
	for i := range r.limits.Counts {
		key := machine.KeyOfCount(&r.limits.Counts[i])
		n := given[key]
		if n == 0 {
			continue
		}
		total[key] = verdict.AddCount(a.Spend.Counts[i].Extended, n)
		one := machine.SpendOf(&a.Account, a.Spend.Use(i))
		one.Allowed = record.Number(verdict.AddCount(int64(one.Allowed), n))
		one.Extension = record.Number(n)
		spend = append(spend, one)
	}
	return spend
}
