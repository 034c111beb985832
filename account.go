package watchdog

import (
	"slices"
	"sync/atomic"

	"github.com/seed62658d38/watchdog/internal/driver"
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
	tree *driver.Tree
	ledger.Ledger
}

// Usage returns how far each counted limit of the run is used, in the order of the fields of [Spend]: what a host
// keeps for [Spend].Used. It is nil if there is none, and for a nil Watchdog.
func (w *Watchdog) Usage() []Usage {
	if w == nil {
		return nil
	}
	a := w.r.account.Load()
	if a == nil {
		return nil
	}
	w.r.Lock()
	defer w.r.Unlock()
	return a.usage()
}

// accountOf returns the run's account, made at the first need, and those of the runs around it.
func (r *run) accountOf() *account {
	if a := r.account.Load(); a != nil {
		return a
	}
	a, spend := &account{id: r.Node.Run}, verdict.NewSpend(r.limits.Counts, r.Node.ObserveOnly)
	a.run.Store(r)
	if r.Outer() != nil {
		a.outer = r.around().accountOf()
		a.in = a.outer.in
		a.in.OpenLayer(&a.Account, &a.outer.Account, spend, r.limits.currency)
	} else {
		a.in = &sessionLedger{tree: r.Tree}
		a.in.OpenSession(&a.Account, spend, r.limits.currency)
	}
	r.account.CompareAndSwap(nil, a)
	return r.account.Load()
}

// look has what a charge did to the limits judged, of the run and those around it. The caller holds the tree.
func (a *account) look(k *driver.Work) {
	if r := a.nearest(); r != nil {
		r.Tree.Look(k, &r.Run, &machine.Input{Kind: machine.LookAround})
	}
}

// nearest is the innermost run that is not closed, of the account's own and those around it, nil if there is none.
func (a *account) nearest() *run {
	for ; a != nil; a = a.outer {
		if r := a.run.Load(); r != nil {
			return r
		}
	}
	return nil
}

// usage is how far each limit is used. The caller holds the tree.
func (a *account) usage() (all []Usage) {
	all = slices.Grow(all, len(a.Spend.Limits))
	for i, limit := range a.Spend.Limits {
		u := a.usageOf(a.Spend.Use(i))
		u.Refused, u.Reserve, u.WarnAt = a.Spend.Counts[i].Refused, limit.Reserve, limit.WarnAt
		all = append(all, u)
	}
	return all
}

func (a *account) usageOf(c verdict.CountUse) Usage {
	u := Usage{
		Run: a.id, Limit: c.Kind.String(), Tool: c.Tool, Used: c.Used, Admitted: c.Admitted, Allowed: c.Allowed,
		Needed: c.Needed,
	}
	if c.Kind == verdict.KindCost {
		u.Currency = a.Currency
	}
	return u
}

// close admits nothing any more.
func (a *account) close() {
	if a == nil {
		return
	}
	a.in.tree.Lock()
	defer a.in.tree.Unlock()
	a.Close()
	if a.outer != nil {
		a.run.Store(nil)
	}
}
