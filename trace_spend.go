package watchdog

import (
	"github.com/seed62658d38/watchdog/internal/fold"
	"github.com/seed62658d38/watchdog/internal/verdict"
)

// traceCall traces what became of a call, in the run and those around it. Calls that are made at once may be traced in
// another order than they were counted.
func (w *Watchdog) traceCall(s Signal) {
	if w == nil || w.trace == nil {
		return
	}
	for v := w; v != nil; v = v.outer {
		v.mu.Lock()
		if v.phase == running {
			v.tracing(s)
		}
		v.mu.Unlock()
	}
	w.deliverTrace()
}

// serial tells the charge from the others of its book.
func (c Charge) serial() int { return int(c.gen)<<24 | c.at }

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
	a.book.mu.Lock()
	defer a.book.mu.Unlock()
	for i := range a.spend.Limits {
		if countLimitKey(&a.spend.Limits[i]) == key {
			c := &a.spend.Counts[i]
			return c.Warned, c.Wrapped, c.Rung.Attempts
		}
	}
	return 0, false, 0
}

// traceExtension traces that a counted limit was given more. The caller holds mu.
func (w *Watchdog) traceExtension(c verdict.CountUse, more int64) {
	if w.trace != nil {
		u := w.usageOf(c)
		w.tracing(Signal{Kind: SignalExtend, Usage: &u, More: more})
	}
}
