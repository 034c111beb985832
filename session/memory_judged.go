package session

import (
	"context"
	"fmt"

	"github.com/seed62658d38/watchdog"
)

// Claim implements [Store].
func (m *Memory) Claim(ctx context.Context, judged Session, c ClaimRequest) (Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, outcome, err := m.judged(ctx, judged, c.By)
	if r == nil {
		return outcome, err
	}
	if s, _ := m.read(r); s.Stopped != judged.Stopped {
		return Changed, nil
	}
	if stored, err := m.storedEnd(ctx, r, c.EndID); stored || err != nil {
		return EndStored, err
	}
	r.Session.Claim, r.claimedUntil = c.By, m.now().Add(c.For)
	if c.Stopped {
		r.stopped = r.Session
		r.stopped.Stopped, r.stopped.StopFailed = true, c.StopFailed
	}
	return Done, nil
}

// Warn implements [Store].
func (m *Memory) Warn(ctx context.Context, judged Session, events []watchdog.Event) (Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, outcome, err := m.judged(ctx, judged, "")
	if r == nil {
		return outcome, err
	}
	if err := m.append(ctx, events); err != nil {
		return "", err
	}
	r.WarnedAt, r.warned = m.now(), r.Session
	return Done, nil
}

// Cancel implements [Store].
func (m *Memory) Cancel(ctx context.Context, judged Session, c CancelRequest) (Outcome, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(c.Events) == 0 {
		return "", fmt.Errorf("cancel session %s: there is no cancel event", judged.RunID)
	}
	for _, e := range c.Events {
		if err := e.Validate(); err != nil {
			return "", err
		}
	}
	r, outcome, err := m.judged(ctx, judged, c.By)
	if r == nil {
		return outcome, err
	}
	if stored, err := m.storedEnd(ctx, r, c.Events[len(c.Events)-1].ID); stored || err != nil {
		return EndStored, err
	}
	if err := m.append(ctx, c.Events); err != nil {
		return "", err
	}
	r.Resumes, r.StopFailed, r.Session.Claim = c.Resumes, c.StopFailed, c.By
	m.wantStart(r, c)
	m.noteEnd(r.Session)
	m.end(r, Cancelled, c.Reason)
	m.notify(r.RunID)
	return Done, nil
}

// judged returns the row of a session that is still as it was judged and that nobody else has claimed, or else what
// became of it.
func (m *Memory) judged(ctx context.Context, judged Session, by string) (*memoryRow, Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, "", err
	}
	r := m.rows[judged.RunID]
	if r == nil || r.Status != Active || r.spoiled {
		return nil, Changed, nil
	}
	if m.locked(judged.RunID) {
		return nil, "", fmt.Errorf("session %s: %w", judged.RunID, ErrLocked)
	}
	s, _ := m.read(r)
	switch l := m.leases[s.Lease]; {
	case !s.stalledAs(judged) || l != nil && (l.Expired || l.refutes(judged)):
		return nil, Changed, nil
	case m.now().Before(r.claimedUntil) && s.Claim != by:
		return nil, Taken, nil
	}
	return r, "", nil
}

// storedEnd looks for the end of the run's window, and writes it down in the row.
func (m *Memory) storedEnd(ctx context.Context, r *memoryRow, id string) (stored bool, err error) {
	events, err := m.events.Read(ctx, watchdog.AggregateType, r.RunID)
	if err != nil {
		return false, err
	}
	for _, e := range events {
		if e.ID == id {
			status, reason := StoredEnd(e)
			m.noteEnd(r.Session)
			m.end(r, status, reason)
			r.tell(StoredState(r.State, e))
			m.notify(r.RunID)
			return true, nil
		}
	}
	return false, nil
}
