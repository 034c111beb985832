package watchdog

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/fold"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/ledger"
	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// An account is what one run has used.
type account struct {
	ledger.Account
	in    *sessionLedger
	outer *account // of the run around it, nil for a session
	// run is nil once a layer is closed, so that a charge which is still open does not keep it in memory.
	run atomic.Pointer[Watchdog]
}

// A sessionLedger is what a session and its layers have charged. They share its mutex, so that a call is charged to all
// of them or to none. No code of the host's runs under it.
//
// Rejected: a mutex for each run. A call that does not fit around the layer would have been charged in it meanwhile,
// and another that fits would be refused for it.
type sessionLedger struct {
	mu sync.Mutex
	ledger.Ledger
	session *account
	sources []*sharedLimit // what the session draws on, in the ledger's order
	locks   []*sharedLimit // each of them once, in the order of the locks
}

// lock locks the ledger and all that its session draws on.
func (l *sessionLedger) lock() {
	l.mu.Lock()
	for _, s := range l.locks {
		s.lock()
	}
}

func (l *sessionLedger) unlock() {
	for _, s := range l.locks {
		s.mu.Unlock()
	}
	l.mu.Unlock()
}

// accountOf returns the run's account, made at the first need, and those of the runs around it.
func (w *Watchdog) accountOf() *account {
	if a := w.account.Load(); a != nil {
		return a
	}
	a, spend := &account{}, verdict.NewSpend(w.limits.Counts, w.observeOnly)
	a.run.Store(w)
	if w.outer != nil {
		a.outer = w.outer.accountOf()
		a.in = a.outer.in
		a.in.OpenLayer(&a.Account, &a.outer.Account, spend, w.limits.currency)
	} else {
		a.in = &sessionLedger{session: a}
		a.in.OpenSession(&a.Account, spend, w.limits.currency)
	}
	w.account.CompareAndSwap(nil, a)
	return w.account.Load()
}

// look has what a charge did to the limits judged, of the run and those around it, for a caller that has waited since
// began. Without another goroutine it waits no longer than the timeout since then for all of them: what is not recorded
// by then is kept and tried again.
func (a *account) look(began time.Time) {
	for ; a != nil; a = a.outer {
		if w := a.run.Load(); w != nil {
			w.mu.Lock()
			found := w.lookAndArm()
			w.mu.Unlock()
			w.settleSince(found, began)
		}
	}
}

// traceCall traces what became of a call, in the run and those around it. Calls that are made at once may be traced in
// another order than they were counted.
func (a *account) traceCall(s Signal) {
	var first *Watchdog
	for ; a != nil; a = a.outer {
		if w := a.run.Load(); w != nil && w.trace != nil {
			first = cmp.Or(first, w)
			w.mu.Lock()
			if w.phase == running {
				w.tracing(s)
			}
			w.mu.Unlock()
		}
	}
	if first != nil {
		first.deliverTrace()
	}
}

// traceSpent traces how far the counted limits are used when the run is attached. The caller holds no lock.
func (w *Watchdog) traceSpent(found *fold.Window) {
	if w.trace == nil {
		return
	}
	for _, u := range w.Usage() {
		key := countKey(&u)
		s := Signal{Kind: SignalSpent, Usage: &u, More: found.Given[key]}
		if a := w.account.Load(); a != nil {
			s.Warned, s.Wrapped, s.Rung = a.standing(key)
		}
		w.mu.Lock()
		w.tracing(s)
		w.mu.Unlock()
	}
	w.deliverTrace()
}

// standing returns where a limit stands: its warnings, whether the host was asked to wrap up, and the rung of its
// ladder.
func (a *account) standing(key fold.Key) (warned int, wrapped bool, rung int) {
	a.in.lock()
	defer a.in.unlock()
	if i := a.limitOf(key); i >= 0 {
		c := &a.Spend.Counts[i]
		return c.Warned, c.Wrapped, c.Rung.Attempts
	}
	return 0, false, 0
}

// limitOf returns the index of a counted limit, or -1. The caller holds the ledger.
func (a *account) limitOf(key fold.Key) int {
	for i := range a.Spend.Limits {
		if countLimitKey(&a.Spend.Limits[i]) == key {
			return i
		}
	}
	return -1
}
