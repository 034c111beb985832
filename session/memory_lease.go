package session

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/seed62658d38/watchdog/event"
)

// A memoryLease is a lease with its attempts that somebody else has ended, of which it is to be told.
type memoryLease struct {
	Lease
	ended map[AttemptID]bool
}

// living returns a lease, or an error if it does not live.
func (m *Memory) living(id string) (memoryLease, error) {
	l, there := m.leases[id]
	if !there || l.Expired {
		return l, fmt.Errorf("%w: lease %s", ErrLeaseExpired, id)
	}
	return l, nil
}

// BeginLease implements [Store].
func (m *Memory) BeginLease(ctx context.Context, l Lease) error {
	return m.do(ctx, func() error {
		if err := l.Validate(); err != nil {
			return err
		}
		if _, there := m.leases[l.ID]; !there {
			l.RenewedAt, l.Expired, l.Lost, l.Looks, l.Locked = m.now(), false, false, 0, false
			l.Behind = slices.Clone(l.Behind)
			m.leases[l.ID] = memoryLease{l, map[AttemptID]bool{}}
		}
		_, err := m.living(l.ID)
		return err
	})
}

// RenewLease implements [Store].
func (m *Memory) RenewLease(ctx context.Context, l Lease) error {
	return m.do(ctx, func() error {
		there, err := m.living(l.ID)
		if err != nil || l.Beat <= there.Beat {
			return err
		}
		there.Beat, there.Clock, there.RenewedAt = l.Beat, max(there.Clock, l.Clock), m.now()
		there.Vouched, there.Covered = max(there.Vouched, l.Vouched), max(there.Covered, l.Covered)
		if l.Covered > 0 {
			there.Behind = slices.Clone(l.Behind)
		}
		m.leases[l.ID] = there
		return nil
	})
}

// ObserveLeases implements [Store].
func (m *Memory) ObserveLeases(ctx context.Context, _ []string) ([]Lease, error) {
	return get(ctx, m, func() (all []Lease, err error) {
		for _, id := range slices.Sorted(maps.Keys(m.leases)) {
			l := m.leases[id].Lease
			l.Behind = slices.Clone(l.Behind)
			all = append(all, l)
		}
		return all, nil
	})
}

// ExpireLease implements [Store].
func (m *Memory) ExpireLease(ctx context.Context, l Lease) (expired bool, left int, err error) {
	err = m.do(ctx, func() error {
		there, living := m.living(l.ID)
		if there.ID == "" { // and there are rows that name no lease
			expired = true
			return nil
		}
		named := m.namedBy(l.ID)
		expired, left = living != nil || there.Beat == l.Beat, len(named)
		if !expired {
			return nil
		}
		there.Expired = true
		m.leases[l.ID] = there
		for _, r := range named {
			if left > len(named)-ExpireBatch && m.free(r.RunID) == nil {
				r.leave(there)
				r.Lost, r.Expired = l.Lost, ExpiredLease{l.ID, l.Looks, event.Truncate(l.RenewedAt)}
				m.write(r)
				left--
			}
		}
		if left == 0 {
			delete(m.leases, l.ID)
		}
		return nil
	})
	return expired, left, err
}

// LeaseSessions implements [Store].
func (m *Memory) LeaseSessions(ctx context.Context, id string) ([]AttemptID, error) {
	return get(ctx, m, func() (all []AttemptID, err error) {
		for _, r := range m.namedBy(id) {
			all = append(all, AttemptID{r.RunID, r.Attempt})
		}
		return all, nil
	})
}

func (m *Memory) namedBy(lease string) []memoryRow {
	return m.where(func(r memoryRow) bool { return r.Status == Active && r.Lease == lease })
}

// Ended implements [Store].
func (m *Memory) Ended(ctx context.Context, lease string, told []AttemptID) ([]AttemptID, error) {
	return get(ctx, m, func() ([]AttemptID, error) {
		ended := m.leases[lease].ended
		for _, a := range told {
			delete(ended, a)
		}
		return slices.SortedFunc(maps.Keys(ended), func(a, b AttemptID) int {
			return cmp.Or(cmp.Compare(a.RunID, b.RunID), cmp.Compare(a.Attempt, b.Attempt))
		}), nil
	})
}

// noteEnd notes for its lease, and tells whoever listens, that somebody else ends a session.
func (m *Memory) noteEnd(s Session) {
	if l, there := m.leases[s.Lease]; there {
		l.ended[AttemptID{s.RunID, s.Attempt}] = true
	}
	m.notified = append(m.notified, s.RunID)
	close(m.more)
	m.more = make(chan struct{})
}
