package watchdog

import (
	"fmt"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/clocks"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/record"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
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
	case w.disabled:
		return nil
	}
	if err := w.extendSpend(&more); err != nil {
		return fmt.Errorf("extend spend of run %s: %w", w.id, err)
	}
	return nil
}

func (w *Watchdog) extendSpend(more *Spend) error {
	began := clocks.Now(w.clock.other)
	given, err := w.givenBy(more)
	if err != nil {
		return err
	}
	event, given, err := w.newSpendExtension(given)
	if err != nil {
		return err
	}
	found, err := w.recordExtension(event, 0)
	if err != nil {
		return err
	}
	if !found.Over() {
		found.Give(given)
	}
	stop, err := w.adopt(&found, began)
	if stop != nil {
		return fmt.Errorf("%w: %w", ErrEnded, stop)
	}
	return err
}

// givenBy returns how much more each limit gets.
func (w *Watchdog) givenBy(more *Spend) (given map[fold.Key]int64, err error) {
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
		case !w.limitsCount(key):
			return nil, fmt.Errorf("%w extension: the run has no limit of %s", ErrInvalid, l.name)
		}
		given[key] = l.max
	}
	if len(given) == 0 {
		return nil, fmt.Errorf("%w extension: it has no limit", ErrInvalid)
	}
	return given, nil
}

func (w *Watchdog) limitsCount(key fold.Key) bool {
	for i := range w.limits.Counts {
		if countLimitKey(&w.limits.Counts[i]) == key {
			return true
		}
	}
	return false
}

func countLimitKey(l *verdict.CountLimit) fold.Key {
	return fold.CountKey(l.Kind.String(), l.Tool, l.Scope)
}

// newSpendExtension returns the event, and how much each limit has been given in all after it.
func (w *Watchdog) newSpendExtension(given map[fold.Key]int64) (e Event, total map[fold.Key]int64, err error) {
	_ = w.poll() // a run that is late has ended
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.phase != running {
		return e, nil, fmt.Errorf("%w: %w", ErrEnded, w.cause())
	}
	a := w.accountOf()
	a.in.lock()
	defer a.in.unlock()
	total = map[fold.Key]int64{}
	var spend []record.Spend
	for i := range w.limits.Counts {
		key := countLimitKey(&w.limits.Counts[i])
		n := given[key]
		if n == 0 {
			continue
		}
		total[key] = verdict.AddCount(a.Spend.Counts[i].Extended, n)
		u := w.usageOf(a.Spend.Use(i))
		u.Allowed = verdict.AddCount(u.Allowed, n)
		one := *u.recorded()
		one.Extension = record.Number(n)
		spend = append(spend, one)
	}
	return w.spendExtendEvent(spend), total, nil
}

// spendExtendEvent gives counted limits more. The caller holds mu.
func (w *Watchdog) spendExtendEvent(spend []record.Spend) Event {
	at := w.clock.now()
	budget := verdict.Sum(w.limits.WallClock, w.seen.Extended)
	if budget == NoLimit {
		budget = 0
	}
	return w.newEvent(EventExtend, at, "", record.Extend{
		SessionStartedAt: record.Stamp(w.startedAt), ExtendedAt: record.Stamp(at),
		ElapsedSeconds: record.WholeSeconds(w.worked()), ConfiguredBudgetSeconds: record.FloatSeconds(budget),
		Parent: w.lineage.parent(), Window: w.lineage.fresh(), Spend: spend,
	})
}

// takeExtensions takes up what the window was given. The caller holds mu and has seen the run running.
func (w *Watchdog) takeExtensions(found *fold.Window) {
	if a := w.account.Load(); a != nil && len(found.Given) > 0 {
		a.in.lock()
		for i := range a.Spend.Limits {
			more := found.Given[countLimitKey(&a.Spend.Limits[i])] - a.Spend.Counts[i].Extended
			if more > 0 {
				a.Spend.Extend(i, more)
				w.traceExtension(a.Spend.Use(i), more)
			}
		}
		a.in.unlock()
	}
	w.extendTo(max(found.Extended, w.seen.Extended))
}

// givenTo is how much the limit that tripped was given so far.
func (w *Watchdog) givenTo(u *Usage) int64 {
	a := w.account.Load()
	if a == nil || u == nil {
		return 0
	}
	a.in.lock()
	defer a.in.unlock()
	if i := a.limitOf(countKey(u)); i >= 0 {
		return a.Spend.Counts[i].Extended
	}
	return 0
}

// traceExtension traces that a counted limit was given more. The caller holds mu.
func (w *Watchdog) traceExtension(c verdict.CountUse, more int64) {
	if w.trace != nil {
		u := w.usageOf(c)
		w.tracing(Signal{Kind: SignalExtend, Usage: &u, More: more})
	}
}
