package session

import (
	"context"
	"fmt"

	"github.com/seed62658d38/watchdog"
)

// Claim implements [Store].
func (m *Memory) Claim(ctx context.Context, judged Session, c ClaimRequest) (Outcome, error) {
	return m.judge(ctx, judged, c.By, func(r *memoryRow) (Outcome, error) {
		if s, _ := m.read(r); s.Stopped != judged.Stopped {
			return Changed, nil
		}
		if m.endStored(r, c.EndID) {
			return EndStored, nil
		}
		r.Session.Claim, r.claimedUntil = c.By, m.now().Add(c.For)
		if c.Stopped {
			r.stopped = r.Session
			r.stopped.Stopped, r.stopped.StopFailed = true, c.StopFailed
		}
		return Done, nil
	})
}

// Warn implements [Store].
func (m *Memory) Warn(ctx context.Context, judged Session, events []watchdog.Event) (Outcome, error) {
	return m.judge(ctx, judged, "", func(r *memoryRow) (Outcome, error) {
		if err := m.append(ctx, events); err != nil {
			return "", err
		}
		r.WarnedAt, r.warned = m.now(), r.Session
		return Done, nil
	})
}

// Cancel implements [Store].
func (m *Memory) Cancel(ctx context.Context, judged Session, c CancelRequest) (Outcome, error) {
	if len(c.Events) == 0 {
		return "", fmt.Errorf("cancel session %s: there is no cancel event", judged.RunID)
	}
	for _, e := range c.Events {
		if err := e.Validate(); err != nil {
			return "", err
		}
	}
	return m.judge(ctx, judged, c.By, func(r *memoryRow) (Outcome, error) {
		if m.endStored(r, c.Events[len(c.Events)-1].ID) {
			return EndStored, nil
		}
		if err := m.append(ctx, c.Events); err != nil {
			return "", err
		}
		r.Resumes, r.StopFailed, r.Session.Claim = c.Resumes, c.StopFailed, c.By
		m.wantStart(r, c)
		m.noteEnd(r.Session)
		m.end(r, Cancelled, c.Reason)
		return Done, nil
	})
}

// judge does something with the row of a session that is still as it was judged and that nobody else has claimed, or
// else returns what became of it.
func (m *Memory) judge(
	ctx context.Context, judged Session, by string, do func(r *memoryRow) (Outcome, error),
) (Outcome, error) {
	if err := m.lock(ctx); err != nil {
		return "", err
	}
	defer m.mu.Unlock()
	r := m.rows[judged.RunID]
	if r == nil || r.Status != Active || r.spoiled {
		return Changed, nil
	}
	if m.locked(judged.RunID) {
		return "", fmt.Errorf("session %s: %w", judged.RunID, ErrLocked)
	}
	s, _ := m.read(r)
	switch l := m.leases[s.Lease]; {
	case !s.stalledAs(judged) || l != nil && (l.Expired || l.refutes(judged)):
		return Changed, nil
	case m.now().Before(r.claimedUntil) && s.Claim != by:
		return Taken, nil
	}
	return do(r)
}

// endStored writes the end of the run's window down in the row, if it is stored.
func (m *Memory) endStored(r *memoryRow, id string) bool {
	at, there := m.stored[id]
	if !there || m.log[at].AggregateType != watchdog.AggregateType || m.log[at].AggregateID != r.RunID {
		return false
	}
	status, reason := StoredEnd(m.log[at])
	m.noteEnd(r.Session)
	m.end(r, status, reason)
	r.tell(StoredState(r.State, m.log[at]))
	return true
}
