package watchdog

import "github.com/seed62658d38/watchdog/internal/verdict"

// restoreSpend puts the counted limits where the window's events say that they stand. What was used is not in the
// events: see openSpend.
func (w *Watchdog) restoreSpend(found *window) {
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
func (w *Watchdog) restoreScopes(found *window) {
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
func (a *account) restoreLimit(i int, found *window) {
	limit := &a.spend.Limits[i]
	key := countKey(&Usage{Limit: limit.Kind.String(), Tool: limit.Tool, Scope: limit.Scope})
	extended := found.given[key]
	allowed := float64(verdict.AddCount(limit.Max, extended))
	var rung verdict.Rung
	for id, trip := range found.trips {
		if trip.on == key && !found.resets[id] {
			rung.Attempts = max(rung.Attempts, trip.rung)
		}
	}
	a.spend.Restore(i, extended, found.warnedOf(key, limit.WarnAt, allowed), found.wrapped[wrapKey{key, allowed}], rung)
}
