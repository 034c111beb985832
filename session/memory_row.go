package session

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
)

// A memoryRow is a session with the store's own columns.
type memoryRow struct {
	Session
	spoiled bool // unreadable
	quiet   bool // sweepers may look at it
	// claimedUntil is when the latest claim ends. warned is the session as it was warned, and stopped as it was when its
	// agents were stopped.
	claimedUntil    time.Time
	warned, stopped Session
}

// current reports whether the row is of an attempt that has not ended.
func (r *memoryRow) current(attempt int) bool {
	return r != nil && r.Status == Active && r.Attempt == attempt
}

func (m *Memory) write(r *memoryRow) {
	for _, at := range []*time.Time{&r.CreatedAt, &r.LastEventAt, &r.StartedAt} {
		*at = record.Truncate(*at)
	}
	m.rows[r.RunID] = r
}

// Attach implements [Store].
func (m *Memory) Attach(ctx context.Context, s Session) (before, after Session, err error) {
	if err := m.lock(ctx); err != nil {
		return before, after, err
	}
	defer m.mu.Unlock()
	if s.Lease != "" {
		if err := m.leases[s.Lease].expiry(s.Lease); err != nil {
			return before, after, err
		}
	}
	if there := m.rows[s.RunID]; there != nil {
		if m.locked(s.RunID) {
			return before, after, fmt.Errorf("attach to run %s: %w", s.RunID, ErrLocked)
		}
		if before, err = m.read(there); err != nil {
			return before, after, err
		}
	}
	if s.Attempt > 0 && before.Attempt >= s.Attempt {
		return before, before, nil
	}
	r := m.attached(s, before)
	m.write(r)
	if before.Status == Active {
		m.noteEnd(before)
	}
	return before, r.Session, nil
}

// attached returns the row of a new attempt.
func (m *Memory) attached(s, before Session) *memoryRow {
	now := m.now()
	r := &memoryRow{Session: Session{
		RunID: s.RunID, Parent: s.Parent, Status: Active, CreatedAt: now, LastEventAt: now, Threshold: s.Threshold,
		StartedAt: s.StartedAt, Host: s.Host, Attempt: max(before.Attempt+1, s.Attempt), Resumes: before.Resumes,
		Lease: s.Lease, State: s.State,
	}}
	if s.Lease != "" {
		r.Activity = NoActivity
		r.allow(s.Allowance)
	}
	if before.Attempt > 0 {
		r.CreatedAt = before.CreatedAt
	}
	return r
}

// Freshen implements [Store]. No row is ever refused.
func (m *Memory) Freshen(ctx context.Context, lease string, fresh []Freshness) (skipped Skipped, err error) {
	if err := m.lock(ctx); err != nil {
		return skipped, err
	}
	defer m.mu.Unlock()
	if err := m.leases[lease].expiry(lease); err != nil {
		return skipped, err
	}
	for _, f := range fresh {
		switch r := m.rows[f.RunID]; {
		case !r.current(f.Attempt):
			skipped.Gone = append(skipped.Gone, f.RunID)
		case m.locked(f.RunID):
			skipped.Locked = append(skipped.Locked, f.RunID)
		case r.Lease != lease || f.Activity >= r.Activity:
			r.Lease, r.Lost, r.Expired, r.Activity, r.quiet = lease, false, ExpiredLease{}, f.Activity, f.Quiet
			r.allow(f.Allowance)
			r.tell(f.State)
		}
	}
	return skipped, nil
}

// allow gives the row an allowance, 0 for none. Nobody who reads it knows none, and needs a threshold in its place.
func (r *memoryRow) allow(allowance time.Duration) {
	if r.Allowance = allowance; allowance > 0 {
		r.Threshold = 0
	}
}

// End implements [Store].
func (m *Memory) End(ctx context.Context, ends []Ending) (skipped Skipped, err error) {
	for _, e := range ends {
		if err := e.Validate(); err != nil {
			return skipped, err
		}
	}
	if err := m.lock(ctx); err != nil {
		return skipped, err
	}
	defer m.mu.Unlock()
	for _, e := range ends {
		switch r := m.rows[e.RunID]; {
		case !r.current(e.Attempt):
		case m.locked(e.RunID):
			skipped.Locked = append(skipped.Locked, e.RunID)
		default:
			r.LastEventAt = latest(r.LastEventAt, record.Truncate(m.now().Add(-e.Age)))
			m.end(r, e.Status, e.Reason)
			r.tell(e.State)
		}
	}
	return skipped, nil
}

func (m *Memory) end(r *memoryRow, status Status, reason watchdog.StopReason) {
	r.leave(m.leases[r.Lease])
	r.Status, r.Reason, r.EndedAt = status, reason, m.now()
}

// leave takes a row out of its lease: its times are by the database's clock again.
func (r *memoryRow) leave(l *Lease) {
	if r.Activity != NoActivity && l != nil {
		r.LastEventAt = latest(r.LastEventAt, record.Truncate(l.RenewedAt.Add(r.Activity-l.Clock)))
	}
	r.Lease, r.Lost, r.Activity, r.quiet, r.Allowance = "", false, 0, false, 0
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// tell has the row say what its run's process does, unless that is nothing new.
func (r *memoryRow) tell(state json.RawMessage) {
	if state != nil {
		r.State = state
	}
}

// Session implements [Store].
func (m *Memory) Session(ctx context.Context, runID string) (Session, error) {
	if err := m.lock(ctx); err != nil {
		return Session{}, err
	}
	defer m.mu.Unlock()
	if r := m.rows[runID]; r != nil {
		return m.read(r)
	}
	return Session{}, fmt.Errorf("%w: run %s", ErrNotFound, runID)
}

// read returns a row as a session.
func (m *Memory) read(r *memoryRow) (Session, error) {
	if r.spoiled {
		return Session{}, fmt.Errorf("%w: run %s: it was spoiled", ErrUnreadable, r.RunID)
	}
	s := r.Session
	s.Silence, s.Behind = 0, false
	if l := m.leases[s.Lease]; l != nil && r.quiet && r.Activity != NoActivity {
		s.Silence, s.Behind = l.silenceOf(s)
	}
	if !r.warned.sameSigns(s) {
		s.WarnedAt = time.Time{}
	}
	if !r.isToStart() {
		s.Start = WantedStart{}
	}
	switch s.Stopped = s.Status == Active && r.stopped.Stopped && r.stopped.sameSigns(s); {
	case s.Stopped:
		s.StopFailed = r.stopped.StopFailed
	case s.Status != Cancelled:
		s.StopFailed = false
	}
	return s, nil
}
