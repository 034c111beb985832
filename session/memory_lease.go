package session

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/seed62658d38/watchdog/internal/record"
)

// A leaseEnd is an attempt of a lease that somebody else has ended.
type leaseEnd struct {
	lease string
	AttemptID
}

// BeginLease implements [Store].
func (m *Memory) BeginLease(ctx context.Context, l Lease) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if err := l.Validate(); err != nil {
		return err
	}
	if there := m.leases[l.ID]; there != nil {
		return there.expiry(l.ID)
	}
	l.RenewedAt, l.Behind = m.now(), slices.Clone(l.Behind)
	l.Expired, l.Lost, l.Looks, l.Locked = false, false, 0, false
	m.leases[l.ID] = &l
	return nil
}

// RenewLease implements [Store].
func (m *Memory) RenewLease(ctx context.Context, l Lease) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	there := m.leases[l.ID]
	if err := there.expiry(l.ID); err != nil || l.Beat <= there.Beat {
		return err
	}
	there.Beat, there.Clock, there.RenewedAt = l.Beat, max(there.Clock, l.Clock), m.now()
	there.Vouched, there.Covered = max(there.Vouched, l.Vouched), max(there.Covered, l.Covered)
	if l.Covered > 0 {
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

// ObserveLeases implements [Store].
func (m *Memory) ObserveLeases(ctx context.Context, _ []string) (all []Lease, err error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(m.leases)) {
		l := *m.leases[id]
		l.Behind = slices.Clone(l.Behind)
		all = append(all, l)
	}
	return all, nil
}

// ExpireLease implements [Store].
func (m *Memory) ExpireLease(ctx context.Context, l Lease) (expired bool, left int, err error) {
	if err := m.lock(ctx); err != nil {
		return false, 0, err
	}
	defer m.mu.Unlock()
	there := m.leases[l.ID]
	switch {
	case there == nil:
		return true, 0, nil
	case !there.Expired && there.Beat != l.Beat:
		return false, len(m.namedBy(l.ID)), nil
	}
	there.Expired = true
	taken := 0
	for _, r := range m.sorted() {
		if r.Status == Active && r.Lease == l.ID && taken < ExpireBatch && !m.locked(r.RunID) {
			r.leave(there)
			r.Lost, r.Expired = l.Lost, ExpiredLease{l.ID, l.Looks, record.Truncate(l.RenewedAt)}
			taken++
		}
	}
	if left = len(m.namedBy(l.ID)); left == 0 {
		delete(m.leases, l.ID)
		maps.DeleteFunc(m.leaseEnds, func(e leaseEnd, _ bool) bool { return e.lease == l.ID })
	}
	return true, left, nil
}

// LeaseSessions implements [Store].
func (m *Memory) LeaseSessions(ctx context.Context, id string) ([]AttemptID, error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	return m.namedBy(id), nil
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

// Ended implements [Store].
func (m *Memory) Ended(ctx context.Context, lease string, told []AttemptID) (ended []AttemptID, err error) {
	if err := m.lock(ctx); err != nil {
		return nil, err
	}
	defer m.mu.Unlock()
	for _, a := range told {
		delete(m.leaseEnds, leaseEnd{lease, a})
	}
	for e := range m.leaseEnds {
		if e.lease == lease {
			ended = append(ended, e.AttemptID)
		}
	}
	slices.SortFunc(ended, func(a, b AttemptID) int {
		return cmp.Or(cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.Attempt, b.Attempt))
	})
	return ended, nil
}

// noteEnd notes for its lease, and tells whoever listens, that somebody else ends a session.
func (m *Memory) noteEnd(s Session) {
	if m.leases[s.Lease] != nil {
		m.leaseEnds[leaseEnd{s.Lease, AttemptID{s.RunID, s.Attempt}}] = true
	}
	m.notify(s.RunID)
}
