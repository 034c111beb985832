package watchdog

import (
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// restoreSpend puts the counted limits where the window's events say that they stand. What was used is not in the
// events: see openSpend.
func (w *Watchdog) restoreSpend(found *fold.Window) {
	a := w.account.Load()
	if a == nil {
		return
	}
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	for i := range a.spend.Limits {
		a.restoreLimit(i, found)
	}
}

// restoreScopes does so with the limits of scopes that count for ever. Of the others the events do not say in which of
// their windows something was asked: there it may be asked again.
func (w *Watchdog) restoreScopes(found *fold.Window) {
	a := w.account.Load()
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	for _, d := range a.draws {
		for _, i := range d.limits {
			if i >= 0 && d.pool.period == PeriodNone && a.spend.Limits[i].Scope != "" {
				a.restoreLimit(i, found)
			}
		}
	}
}

// restoreLimit puts one limit where it stands. The caller holds mu of the book.
func (a *account) restoreLimit(i int, found *fold.Window) {
	limit := &a.spend.Limits[i]
	key := countLimitKey(limit)
	extended := found.Given[key]
	allowed := verdict.AddCount(limit.Max, extended)
	rung := 0
	for _, d := range found.Standing() {
		if d.On == key && d.Allowed == allowed {
			rung = max(rung, d.Rung)
		}
	}
	budget := float64(allowed)
	a.spend.Restore(i, extended, found.WarnedOf(key, limit.WarnAt, budget), found.WrappedUp(key, budget),
		a.w.limits.Ladders.StoodOn(limit.Kind.Limit(), rung))
}
