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
