package watchdog

import (
	"sync/atomic"

	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/ledger"
	"github.com/seed62658d38/watchdog/internal/machine"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// An account is what one run has used. Its tree guards it.
type account struct {
	ledger.Account
	id    string // of the run
	in    *sessionLedger
	outer *account // of the run around it, nil for a session
	// run is nil once a layer is closed, so that a charge which is still open does not keep it in memory.
	run atomic.Pointer[run]
}

// A sessionLedger is what a session and its layers have charged. Their tree guards it, so that a call is charged to all
// of them or to none, and judged at once.
type sessionLedger struct {
	tree *tree
	ledger.Ledger
	session *account
	shares  atomic.Pointer[shares] // nil while the session draws on nothing that a store keeps
}

// accountOf returns the run's account, made at the first need, and those of the runs around it.
func (r *run) accountOf() *account {
	if a := r.account.Load(); a != nil {
		return a
	}
	a, spend := &account{id: r.node.Run}, verdict.NewSpend(r.limits.Counts, r.observeOnly)
	a.run.Store(r)
	if r.outer != nil {
		a.outer = r.outer.accountOf()
		a.in = a.outer.in
		a.in.OpenLayer(&a.Account, &a.outer.Account, spend, r.limits.currency)
	} else {
		a.in = &sessionLedger{tree: r.tree, session: a}
		a.in.OpenSession(&a.Account, spend, r.limits.currency)
	}
	r.account.CompareAndSwap(nil, a)
	return r.account.Load()
}

// own is the ledger of a session's account, nil for that of a layer and for none.
func (a *account) own() *sessionLedger {
	if a == nil || a.outer != nil {
		return nil
	}
	return a.in
}

// look has what a charge did to the limits judged, of the run and those around it. The caller holds the tree.
func (a *account) look(k *work) {
	for ; a != nil; a = a.outer {
		if r := a.run.Load(); r != nil {
			r.tree.stepAt(k, r.now(), r, &machine.Input{Kind: machine.LookAround})
			return
		}
	}
}

// learn brings what all have used of shared limits into the decision. The caller holds the tree.
func (a *account) learn() {
	if a != nil {
		s := a.in.shares.Load()
		s.lock()
		defer s.unlock()
		a.Learn()
	}
}

// traceCall traces what became of a call, in the run and those around it up to that one, nil for all. The caller holds
// the tree, and not what it draws on.
func (a *account) traceCall(k *work, upTo *machine.Node, s verdict.Signal, currency string) {
	if a.in.tree.trace == nil {
		return
	}
	for ; a != nil; a = a.outer {
		if r := a.run.Load(); r != nil {
			told := machine.Signal{Signal: s, Currency: currency}
			r.tree.stepAt(k, r.now(), r, &machine.Input{Kind: machine.Counted, Around: upTo, Told: &told})
			return
		}
	}
}

// traceSpent traces how far the counted limits are used when the run is attached. The caller holds no lock.
func (a *account) traceSpent(r *run, found *fold.Window) {
	if a == nil || r.tree.trace == nil {
		return
	}
	r.locked(func() {
		for _, u := range a.usage() {
			key := fold.CountKey(u.Limit, u.Tool, u.Scope)
			s := Signal{Kind: SignalSpent, Usage: &u, More: found.Given[key]}
			if i := r.node.LimitOf(key); i >= 0 {
				c := &a.Spend.Counts[i]
				s.Warned, s.Wrapped, s.Rung = c.Warned, c.Wrapped, c.Rung.Attempts
			}
			r.traced(s)
		}
	})
	r.tree.deliverTrace()
}

// usage is how far each limit is used. The caller holds the tree.
func (a *account) usage() (all []Usage) {
	a.learn()
	if len(a.Spend.Limits) > 0 {
		all = make([]Usage, 0, len(a.Spend.Limits))
	}
	for i := range a.Spend.Limits {
		all = append(all, a.usageOf(a.Spend.Use(i)))
	}
	return all
}

// usageOf is how far one limit is used.
func (a *account) usageOf(c verdict.CountUse) Usage {
	u := Usage{
		Run: a.id, Limit: c.Kind.String(), Tool: c.Tool, Scope: c.Scope,
		Used: c.Used, Admitted: c.Admitted, Allowed: c.Allowed, Needed: c.Needed,
		Pattern: c.Pattern,
	}
	if c.Kind == verdict.KindCost {
		u.Currency = a.Currency
	}
	return u
}
