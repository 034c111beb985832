package watchdog

import (
	"fmt"

	"github.com/seed62658d38/watchdog/internal/clocks"
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// ExtendSpend gives counted limits of the running run more, each by what its field says, recorded as [EventExtend]
// before it counts. Warnings and the reserve of such a limit begin again, and so does its ladder. Limits of scopes are
// extended by raising them where they are configured.
//
// The error wraps [ErrInvalid] if nothing is extended, if a number is negative, if Reserve or WarnAt is set, or if the
// run has no such limit; [ErrEnded] if the run has ended, or for a nil Watchdog; or it is the store's error. Then the
// limits are as before, unless the store was too slow to answer and keeps the event after all. A run that is disabled
// has no limits, and nothing is done.
func (w *Watchdog) ExtendSpend(more Spend) error {
	switch {
	case w == nil:
		return fmt.Errorf("extend spend: %w", errNoRun)
	case w.r.disabled:
		return nil
	}
	if err := w.r.extendSpend(&more); err != nil {
		return fmt.Errorf("extend spend of run %s: %w", w.r.node.Run, err)
	}
	return nil
}

func (r *run) extendSpend(more *Spend) error {
	began := clocks.Now(r.tree.clock.other)
	given, err := r.givenBy(more)
	if err != nil {
		return err
	}
	event, given, err := r.newSpendExtension(given)
	if err != nil {
		return err
	}
	found, err := r.recordExtension(event, 0)
	if err != nil {
		return err
	}
	if !found.Over() {
		found.Give(given)
	}
	stop, err := r.adopt(&found, began)
	if stop != nil {
		return fmt.Errorf("%w: %w", ErrEnded, stop)
	}
	return err
}

// givenBy returns how much more each limit gets.
func (r *run) givenBy(more *Spend) (given map[fold.Key]int64, err error) {
	if more.Reserve != (Totals{}) || more.WarnAt != nil {
		return nil, fmt.Errorf("%w extension: Reserve and WarnAt cannot be extended; leave them out", ErrInvalid)
	}
	given = map[fold.Key]int64{}
	for l := range more.listed() {
		key := fold.CountKey(l.kind.String(), l.tool, "")
		switch {
		case l.max == 0:
			continue
		case l.max < 0:
			return nil, fmt.Errorf("%w extension: %s is %d; use a positive number", ErrInvalid, l.name, l.max)
		case !r.limitsCount(key):
			return nil, fmt.Errorf("%w extension: the run has no limit of %s", ErrInvalid, l.name)
		}
		given[key] = l.max
	}
	if len(given) == 0 {
		return nil, fmt.Errorf("%w extension: it has no limit", ErrInvalid)
	}
	return given, nil
}

func (r *run) limitsCount(key fold.Key) bool {
	for i := range r.limits.Counts {
		if machine.KeyOfCount(&r.limits.Counts[i]) == key {
			return true
		}
	}
	return false
}

// newSpendExtension returns the event, and how much each limit has been given in all after it.
func (r *run) newSpendExtension(given map[fold.Key]int64) (e Event, total map[fold.Key]int64, err error) {
	_ = r.poll() // a run that is late has ended
	r.tree.mu.Lock()
	defer r.tree.mu.Unlock()
	if r.node.Phase() != machine.Running {
		return e, nil, fmt.Errorf("%w: %w", ErrEnded, r.cause())
	}
	a := r.accountOf()
	total = map[fold.Key]int64{}
	var spend []record.Spend
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
	return Event(r.node.Moment(r.now()).Extend(0, spend)), total, nil
}
