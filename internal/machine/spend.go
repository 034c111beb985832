package machine

import (
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// spendOf is the counted limit that a verdict is about as events have it, nil for a limit of time.
func (n *Node) spendOf(c verdict.CountUse) *record.Spend {
	if n.seen.Spend == nil || c == (verdict.CountUse{}) {
		return nil
	}
	s := n.SpendOf(c)
	return &s
}

// SpendOf is how far a counted limit is used as events have it.
func (n *Node) SpendOf(c verdict.CountUse) record.Spend {
	s := record.Spend{
		Limit: c.Kind.String(), Tool: c.Tool, Scope: c.Scope, Used: record.Number(c.Used),
		Admitted: record.Number(c.Admitted), Allowed: record.Number(c.Allowed), Needed: record.Number(c.Needed),
		Pattern: c.Pattern,
	}
	if c.Kind == verdict.KindCost {
		s.Currency = n.Account.Currency
	}
	return s
}

// KeyOfCount names a counted limit.
func KeyOfCount(l *verdict.CountLimit) fold.Key {
	return fold.CountKey(l.Kind.String(), l.Tool, l.Scope)
}

// LimitOf returns the index of a counted limit, or -1.
func (n *Node) LimitOf(key fold.Key) int {
	if n.seen.Spend == nil {
		return -1
	}
	for i := range n.seen.Spend.Limits {
		if KeyOfCount(&n.seen.Spend.Limits[i]) == key {
			return i
		}
	}
	return -1
}

// given is how much a counted limit was given so far.
func (n *Node) given(s *record.Spend) int64 {
	if s == nil {
		return 0
	}
	if i := n.LimitOf(fold.CountKey(s.Limit, s.Tool, s.Scope)); i >= 0 {
		return n.seen.Spend.Counts[i].Extended
	}
	return 0
}

// takeExtensions takes up what the window was given. It lets the timer look, and starts the warnings and the wrap-up
// again where there is more.
func (n *Node) takeExtensions(found *fold.Window) {
	if n.seen.Spend != nil && len(found.Given) > 0 {
		for i := range n.seen.Spend.Limits {
			n.extendCount(i, found.Given[KeyOfCount(&n.seen.Spend.Limits[i])])
		}
	}
	if more := found.Extended - n.seen.Extended; more > 0 {
		n.take(signal(verdict.Signal{Kind: verdict.SignalExtend, Length: more}))
	}
	n.lookSoon()
}

// extendCount takes up how much a counted limit was given in all.
func (n *Node) extendCount(i int, given int64) {
	more := given - n.seen.Spend.Counts[i].Extended
	if more <= 0 {
		return
	}
	n.seen.Spend.Extend(i, more)
	s := n.SpendOf(n.seen.Spend.Use(i))
	at := verdict.Signal{Kind: verdict.SignalExtend, At: n.now(), More: more}
	n.trace(Signal{Signal: at, Spend: &s})
}

// restoreSpend puts the counted limits where the window's events say that they stand. What was used is not in the
// events.
func (n *Node) restoreSpend(found *fold.Window) {
	if n.seen.Spend == nil {
		return
	}
	for i := range n.seen.Spend.Limits {
		n.restoreLimit(i, found)
	}
}

// RestoreScope does so with the limits of a scope.
func (n *Node) RestoreScope(scope string, found *fold.Window) {
	for i := range n.seen.Spend.Limits {
		if n.seen.Spend.Limits[i].Scope == scope {
			n.restoreLimit(i, found)
		}
	}
}

// restoreLimit puts one counted limit where the window's events say that it stands.
func (n *Node) restoreLimit(i int, found *fold.Window) {
	limit := &n.seen.Spend.Limits[i]
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
	n.seen.Spend.Restore(i, extended, found.WarnedOf(key, limit.WarnAt, budget), found.WrappedUp(key, budget),
		n.Limits.Ladders.StoodOn(limit.Kind.Limit(), rung))
}

// RestoreLoop puts the ladder of loops where the directives that stand say, so that a run which goes on with one after
// a restart is not asked again what it was asked.
func (n *Node) RestoreLoop() {
	limit := verdict.KindLoop.Limit()
	stood := n.Limits.Ladders.StoodOn(limit, n.more.rungOf(fold.CountKey(string(limit), "", "")))
	for i := range n.seen.Spend.Limits {
		if n.seen.Spend.Limits[i].Kind == verdict.KindLoop {
			n.seen.Spend.Restore(i, 0, 0, false, stood)
		}
	}
}
