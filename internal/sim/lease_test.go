package sim_test

import (
	"context"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/session"
)

// noteRenewal notes that a lease was begun or renewed in the database.
func (w *world) noteRenewal(l *link, id string, beat int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if beat <= w.beats[id] {
		return // it came late
	}
	w.beats[id] = beat
	if _, there := w.leaseOrder[id]; !there {
		w.leaseOrder[id] = len(w.leaseOrder)
	}
	h, now := l.host, time.Now()
	w.renewed[id] = now
	if now.Sub(h.renewedAt) >= 3*promise {
		h.gapUntil = now
	}
	h.renewedAt = now
}

// uses notes the lease that a process uses now.
func (l *link) uses(lease string) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.host.lease != lease {
		l.host.lease, l.host.leaseSince = lease, time.Now()
	}
}

// lockLeases marks the suspects that are locked, and orders the leases as they began: their IDs are random.
func (w *world) lockLeases(all []session.Lease, suspects []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortFunc(all, func(a, b session.Lease) int { return w.leaseOrder[a.ID] - w.leaseOrder[b.ID] })
	for i := range all {
		all[i].Locked = slices.Contains(suspects, all[i].ID) && w.leases.locked(all[i].ID)
	}
}

// checkExpired checks that a lease which a sweeper has expired was not renewed for three promises.
func (w *world) checkExpired(l *link, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	was := w.expired[id]
	w.expired[id] = true
	if was || l.host != nil || w.renewed[id].IsZero() { // it was expired already, or its process ended it
		return
	}
	if since := now.Sub(w.renewed[id]); since < 3*promise && now.Sub(w.restoredAt) > horizon {
		w.failf("sweeper %s expired a lease that was renewed %v ago", l.name, since)
	}
}

// checkRenewed checks that a lease which a process has just renewed had not expired. A call that waited for a lock
// while the database came back older is of no interest.
func (w *world) checkRenewed(l *link, m *session.Memory, id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.db == m && w.expired[id] {
		w.failf("host %s renewed a lease that has expired", l.name)
	}
}

// checkLeases checks that no lease lives which has expired.
func (w *world) checkLeases() {
	for id, expired := range expiredIn(w.db) {
		if w.expired[id] && !expired {
			w.failf("lease %d has expired and lives again", w.leaseOrder[id])
		}
		w.expired[id] = w.expired[id] || expired
	}
}

// expiredIn returns the leases in a database, and whether they have expired.
func expiredIn(db *session.Memory) map[string]bool {
	expired := map[string]bool{}
	all, _ := db.ObserveLeases(context.Background(), nil)
	for _, l := range all {
		expired[l.ID] = l.Expired
	}
	return expired
}

// looks are looks at a lease in a row that succeeded and found the same beat.
type looks struct {
	beat  int64
	since time.Time
	count int
}

// noteLooks notes which leases a sweeper found as it did before.
func (l *link) noteLooks(all []session.Lease, suspects []string, err error) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	for _, id := range suspects {
		i := slices.IndexFunc(all, func(lease session.Lease) bool { return lease.ID == id && !lease.Locked })
		switch before := l.looks[id]; {
		case err != nil || i < 0:
			delete(l.looks, id)
		case before == nil || before.beat != all[i].Beat:
			l.looks[id] = &looks{all[i].Beat, time.Now(), 1}
		default:
			before.count++
		}
	}
}

// checkLooks checks that a sweeper which expires a lease has looked at it for three promises.
func (l *link) checkLooks(lease session.Lease) {
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.host != nil || lease.Expired || l.w.expired[lease.ID] {
		return
	}
	if seen := l.looks[lease.ID]; seen == nil || seen.count < 3 || time.Since(seen.since) < 3*promise {
		l.w.failf("sweeper %s expires a lease without three promises of looks: %+v", l.name, seen)
	}
}
