package machine

import (
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// restore takes up what the window's events say of the ladders and holds of a run that goes on. A hold that is open
// expects silence until it is released or its cap is over. One of a layer stops the wall clock until then and nothing
// else: its layer ended with the process.
func (n *Node) restore(found *fold.Window) {
	var stand standing
	for id, d := range found.Standing() {
		stand = append(stand, given{id: id, rung: d.Rung, on: d.On, at: n.seen.Attached})
	}
	if stand != nil {
		n.extras().given = stand
		n.Pulse.Load().awaitReset(true)
		for _, limit := range [...]verdict.Limit{verdict.Idle, verdict.NoProgress} {
			if rung := stand.rungOf(fold.Key{Limit: string(limit)}); rung > 0 {
				n.take(verdict.Signal{Kind: verdict.SignalRung, Key: string(limit), Rung: rung})
			}
		}
	}
	n.learnPauses(found.Pauses())
	n.expectLeft()
}

// learn counts what others gave a run that goes on. It lets the timer look, and starts the warnings and the wrap-up
// again where there is more.
func (n *Node) learn(known *fold.Window) {
	n.learnPauses(known.Pauses())
	if s := n.seen.Spend; s != nil && len(known.Given) > 0 {
		for i := range s.Limits {
			more := known.Given[KeyOfCount(&s.Limits[i])] - s.Counts[i].Extended
			if more > 0 {
				s.Extend(i, more)
			}
		}
	}
	if more := known.Extended - n.seen.Extended; more > 0 {
		n.take(verdict.Signal{Kind: verdict.SignalExtend, Length: more})
	}
	n.rest(n.now())
}

// SpendOf is how far a counted limit of an account is used as events have it.
func SpendOf(a *ledger.Account, c verdict.CountUse) record.Spend {
	s := record.Spend{
		Limit: c.Kind.String(), Tool: c.Tool, Used: record.Number(c.Used),
		Admitted: record.Number(c.Admitted), Allowed: record.Number(c.Allowed), Needed: record.Number(c.Needed),
	}
	if c.Kind == verdict.KindCost {
		s.Currency = a.Currency
	}
	return s
}

// spentOf is what was used and admitted in all, by the limits that add up of which anything was.
func spentOf(a *ledger.Account) (all []record.Spend) {
	if a == nil {
		return nil
	}
	for i, limit := range a.Spend.Limits {
		if use := a.Spend.Use(i); limit.Kind.Adds() && use.Used|use.Admitted != 0 {
			use.Needed = 0
			all = append(all, SpendOf(a, use))
		}
	}
	return all
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
	return fold.CountKey(l.Kind.String(), l.Tool)
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

func givenTo(s *verdict.Spend, limit *record.Spend) int64 {
	if limit != nil {
		if i := LimitOf(s, fold.CountKey(limit.Limit, limit.Tool)); i >= 0 {
			return s.Counts[i].Extended
		}
	}
	return 0
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
