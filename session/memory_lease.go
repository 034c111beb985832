package session

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog/internal/record"
)

// BeginLease implements [Store].
func (m *Memory) BeginLease(ctx context.Context, l Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := cmp.Or(ctx.Err(), l.Validate()); err != nil {
		return err
	}
	if there := m.leases[l.ID]; there != nil {
		return there.expiry(l.ID)
	}
	if m.leases == nil {
		m.leases = map[string]*Lease{}
	}
	l.RenewedAt, l.Behind = m.now(), slices.Clone(l.Behind)
	l.Expired, l.Lost, l.Looks, l.Locked = false, false, 0, false
	m.leases[l.ID] = &l
	return nil
}

// RenewLease implements [Store].
func (m *Memory) RenewLease(ctx context.Context, l Lease) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	there := m.leases[l.ID]
	if err := there.expiry(l.ID); err != nil {
		return err
	}
	if l.Beat > there.Beat {
		there.Beat, there.Clock, there.RenewedAt = l.Beat, max(there.Clock, l.Clock), m.now()
		there.Vouched, there.Covered = max(there.Vouched, l.Vouched), max(there.Covered, l.Covered)
		there.Behind = slices.Clone(l.Behind)
	}
	return nil
}

// expiry returns an error if the lease does not live.
func (l *Lease) expiry(id string) error {
	switch {
	case l == nil:
		return fmt.Errorf("%w: there is no lease %s", ErrLeaseExpired, id)
	case l.Expired:
		return fmt.Errorf("%w: lease %s", ErrLeaseExpired, id)
	}
	return nil
}

// ObserveLeases implements [Store]. No lease is ever locked.
func (m *Memory) ObserveLeases(ctx context.Context, _ []string) ([]Lease, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var all []Lease
	for _, id := range slices.Sorted(maps.Keys(m.leases)) {
		l := *m.leases[id]
		l.Behind = slices.Clone(l.Behind)
		all = append(all, l)
	}
	return all, nil
}

// ExpireLease implements [Store].
func (m *Memory) ExpireLease(ctx context.Context, l Lease) (expired bool, left int, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, 0, err
	}
	there := m.leases[l.ID]
	switch {
	case there == nil:
		return true, 0, nil
	case !there.Expired && there.Beat != l.Beat:
		return false, len(m.namedBy(l.ID)), nil
	}
	there.Expired = true
	taken := 0
	for _, runID := range slices.Sorted(maps.Keys(m.rows)) {
		if r := m.rows[runID]; r.Status == Active && r.Lease == l.ID && taken < ExpireBatch && !m.locked(runID) {
			r.leave(there)
			r.Lost, r.Expired = l.Lost, ExpiredLease{l.ID, l.Looks, record.Truncate(l.RenewedAt)}
			taken++
		}
	}
	if left = len(m.namedBy(l.ID)); left == 0 {
		delete(m.leases, l.ID)
		delete(m.leaseEnds, l.ID)
	}
	return true, left, nil
}

// LeaseSessions implements [Store].
func (m *Memory) LeaseSessions(ctx context.Context, id string) ([]AttemptID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.namedBy(id), ctx.Err()
}

// Ended implements [Store].
func (m *Memory) Ended(ctx context.Context, lease string, told []AttemptID) ([]AttemptID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, a := range told {
		delete(m.leaseEnds[lease], a)
	}
	return slices.SortedFunc(maps.Keys(m.leaseEnds[lease]), func(a, b AttemptID) int {
		return cmp.Or(cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.Attempt, b.Attempt))
	}), nil
}

// noteEnd notes for its lease that somebody else ends a session.
func (m *Memory) noteEnd(s Session) {
	if m.leases[s.Lease] == nil {
		return
	}
	if m.leaseEnds == nil {
		m.leaseEnds = map[string]map[AttemptID]bool{}
	}
	if m.leaseEnds[s.Lease] == nil {
		m.leaseEnds[s.Lease] = map[AttemptID]bool{}
	}
	m.leaseEnds[s.Lease][AttemptID{s.RunID, s.Attempt}] = true
}

// namedBy returns the active sessions that name a lease.
func (m *Memory) namedBy(lease string) (all []AttemptID) {
	for _, r := range m.rows {
		if r.Status == Active && r.Lease == lease {
			all = append(all, AttemptID{r.RunID, r.Attempt})
		}
	}
	return all
}

// leave takes a row out of its lease: its times are by the database's clock again.
func (r *memoryRow) leave(l *Lease) {
	if r.Activity != NoActivity && l != nil {
		r.LastEventAt = latest(r.LastEventAt, record.Truncate(l.RenewedAt.Add(r.Activity-l.Clock)))
	}
	r.Lease, r.Lost, r.Activity, r.quiet, r.Silence, r.Behind, r.Allowance = "", false, 0, false, 0, false, 0
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// silence returns how long the lease vouches that the row's run is silent, and whether it names the row as behind.
func (r *memoryRow) silence(l *Lease) (silence time.Duration, behind bool) {
	if l == nil || !r.quiet || r.Activity == NoActivity {
		return 0, false
	}
	upTo, behind := l.vouchedFor(AttemptID{r.RunID, r.Attempt})
	return max(upTo-r.Activity, 0), behind
}
