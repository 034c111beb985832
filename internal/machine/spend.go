package machine

import (
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// SpendOf is how far a counted limit of an account is used as events have it.
func SpendOf(a *ledger.Account, c verdict.CountUse) record.Spend {
	s := record.Spend{
		Limit: c.Kind.String(), Tool: c.Tool, Scope: c.Scope, Used: record.Number(c.Used),
		Admitted: record.Number(c.Admitted), Allowed: record.Number(c.Allowed), Needed: record.Number(c.Needed),
		Pattern: c.Pattern,
	}
	if c.Kind == verdict.KindCost {
		s.Currency = a.Currency
	}
	return s
}

// spendOf is the counted limit that a verdict is about, nil for a limit of time.
func spendOf(a *ledger.Account, v *verdict.Verdict) *record.Spend {
	if a == nil || v.Count == (verdict.CountUse{}) {
		return nil
	}
	s := SpendOf(a, v.Count)
	return &s
}

// KeyOfCount names a counted limit.
func KeyOfCount(l *verdict.CountLimit) fold.Key {
	return fold.CountKey(l.Kind.String(), l.Tool, l.Scope)
}

// LimitOf returns the index of a counted limit, or -1.
func LimitOf(s *verdict.Spend, key fold.Key) int {
	if s != nil {
		for i := range s.Limits {
			if KeyOfCount(&s.Limits[i]) == key {
				return i
			}
		}
	}
	return -1
}

// givenTo is how much a counted limit was given so far.
func givenTo(s *verdict.Spend, limit *record.Spend) int64 {
	if limit != nil {
		if i := LimitOf(s, fold.CountKey(limit.Limit, limit.Tool, limit.Scope)); i >= 0 {
			return s.Counts[i].Extended
		}
	}
	return 0
}

// RestoreScope puts the limits of a scope where the window's events say that they stand.
func RestoreScope(s *verdict.Spend, scope string, ladders verdict.Ladders, found *fold.Window) {
	for i := range s.Limits {
		if s.Limits[i].Scope == scope {
			restoreCount(s, i, ladders, found)
		}
	}
}

// restoreCount puts a counted limit where the window's events say that it stands. What was used is not in the events.
func restoreCount(s *verdict.Spend, i int, ladders verdict.Ladders, found *fold.Window) {
	limit := &s.Limits[i]
	key := KeyOfCount(limit)
	extended := found.Given[key]
	allowed := verdict.AddCount(limit.Max, extended)
	rung := 0
	for _, d := range found.Standing() {
		if d.On == key && d.Allowed == allowed {
			rung = max(rung, d.Rung)
		}
	}
	budget := float64(allowed)
	s.Restore(i, extended, found.WarnedOf(key, limit.WarnAt, budget), found.WrappedUp(key, budget),
		ladders.StoodOn(limit.Kind.Limit(), rung))
}
