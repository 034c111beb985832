package session

import (
	"context"
	"fmt"
	"time"

	"github.com/seed62658d38/watchdog/internal/storerows"
)

// ClaimStart implements [Starts].
func (m *Memory) ClaimStart(ctx context.Context, lasts time.Duration) (Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Session{}, err
	}
	r := m.dueStart()
	if r == nil {
		return Session{}, fmt.Errorf("claim a start: %w is to be started now", ErrNotFound)
	}
	r.Start.Tries++
	r.Start.Due = m.now().Add(storerows.StartPause(lasts))
	return m.read(r)
}

// dueStart returns the row whose start has been due for the longest time, nil if there is none.
func (m *Memory) dueStart() (first *memoryRow) {
	now := m.now()
	for _, r := range m.rows {
		due := r.Start.Due
		switch {
		case !r.isToStart() || due.After(now) && !due.After(now.Add(storerows.SetBack)) || m.locked(r.RunID):
		case first == nil || due.Before(first.Start.Due) || due.Equal(first.Start.Due) && r.RunID < first.RunID:
			first = r
		}
	}
	return first
}

// PutOffStart implements [Starts]. It waits for no row that is locked.
func (m *Memory) PutOffStart(ctx context.Context, claimed Session, pause time.Duration) (done bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	r := m.rows[claimed.RunID]
	if r == nil || !r.isToStart() || r.Attempt != claimed.Attempt || r.Start.Key != claimed.Start.Key ||
		r.Start.Tries != claimed.Start.Tries {
		return false, nil
	}
	if m.locked(claimed.RunID) {
		return false, fmt.Errorf("put off the start of run %s: %w", claimed.RunID, ErrLocked)
	}
	if pause == NoMoreStarts {
		r.Start = WantedStart{}
	} else {
		r.Start.Due = m.now().Add(storerows.StartPause(pause))
	}
	return true, nil
}

// isToStart reports whether a start of the row's run is wanted.
func (r *memoryRow) isToStart() bool { return r.Status == Cancelled && r.Start.Key != "" }

// wantStart has the run of a row that is cancelled be started again, if the request says so.
func (m *Memory) wantStart(r *memoryRow, c CancelRequest) {
	r.Start = WantedStart{}
	if c.StartFor > 0 {
		key := c.Events[len(c.Events)-1].ID
		r.Start = WantedStart{Key: key, Tries: 1, Due: m.now().Add(storerows.StartPause(c.StartFor))}
	}
}
