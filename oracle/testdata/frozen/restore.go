package watchdog

import (
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// restoreSpend puts the counted limits where the window's events say that they stand. What was used is not in the
// events: see openSpend.
func (w *Watchdog) restoreSpend(found *fold.Window) {
	a := w.account.Load()
	if a == nil {
		return
	}
	a.in.lock()
	defer a.in.unlock()
	for i := range a.Spend.Limits {
		a.restoreLimit(w, i, found)
	}
}

// restoreScopes does so with the limits of scopes that count for ever. Of the others the events do not say in which of
// their windows something was asked: there it may be asked again.
func (w *Watchdog) restoreScopes(found *fold.Window) {
	a := w.account.Load()
	a.in.lock()
	defer a.in.unlock()
	for source, s := range a.in.sources {
		for _, i := range a.in.LimitsOf(source) {
			if s.period == PeriodNone && a.Spend.Limits[i].Scope != "" {
				a.restoreLimit(w, i, found)
			}
		}
	}
}

// restoreLimit puts one limit where it stands. The caller holds the ledger.
func (a *account) restoreLimit(w *Watchdog, i int, found *fold.Window) {
	limit := &a.Spend.Limits[i]
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
	a.Spend.Restore(i, extended, found.WarnedOf(key, limit.WarnAt, budget), found.WrappedUp(key, budget),
		w.limits.Ladders.StoodOn(limit.Kind.Limit(), rung))
}
