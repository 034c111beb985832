package sim_test

import (
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// checkSwept checks that a session which a sweeper has just cancelled was stalled.
func (w *world) checkSwept(l *link, s session.Session) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.swept++
	for _, s := range w.sweepers {
		if s.link == l {
			s.committed++
		}
	}
	now := time.Now()
	for _, a := range w.attached {
		if a.run.id == s.RunID && a.attempt == s.Attempt && a.live(now) && !w.maySweep(a, now) {
			w.failf("sweeper %s ended run %s of the live host %s: silent for %v of %v, signalled %v, holds %d, lease %v",
				l.name, s.RunID, a.host.name, now.Sub(a.lastSignal), a.shortestThreshold(), a.signalled, len(a.holds),
				s.Lease != "")
		}
	}
}

// live reports whether the process of a run could write within every stretch of three promises.
func (a *attachment) live(now time.Time) bool {
	h := a.host
	if a.closed || h.gone || a.wd.Context().Err() != nil {
		return false
	}
	renews := now.Sub(h.renewedAt) < 3*promise && (h.gapUntil.Before(a.at) || now.Sub(h.gapUntil) > recovery)
	return renews || h.link.own.wellSince(a.at, now)
}

// maySweep reports whether a live run was silent for too long, or whether its row could not say that it lives.
func (w *world) maySweep(a *attachment, now time.Time) bool {
	if now.Sub(latest(w.restoredAt, a.host.leaseLostAt, a.run.row.deletedAt)) < horizon {
		return true
	}
	if a.signalled && len(a.holds) == 0 && now.Sub(a.lastSignal) > a.shortestThreshold() {
		return true
	}
	if !a.wokeAt.IsZero() && w.justWoke(a, now) {
		return true
	}
	if w.leases.locked(a.host.lease) && !a.host.link.own.longBad.Before(a.at) {
		return true // it was dead, and cannot read that its lease has expired
	}
	return w.outOfLease(a, a.host.gapUntil, now) || w.outOfLease(a, a.host.leaseLostAt, now)
}

// outOfLease reports whether the row has left the lease of its process, which expired then, and could not be written
// since.
func (w *world) outOfLease(a *attachment, expired, now time.Time) bool {
	return expired.After(a.at) && a.run.row.unwritten(expired, now)
}

// justWoke reports whether a run that was silent for too long woke up a moment ago, as far as its process could say so.
func (w *world) justWoke(a *attachment, now time.Time) bool {
	able := a.host.link.okSince
	return able.IsZero() || now.Sub(latest(a.wokeAt, able)) < 5*promise
}

// unwritten reports whether the row could not be written since then, all the time or nearly.
func (r *rowTruth) unwritten(since, now time.Time) bool {
	return r.stuckSince.After(r.stuckUntil) || r.stuckUntil.After(since) && now.Sub(r.stuckUntil) < threshold
}
