package session

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
)

// A Memory is a [Store], a [Listener], a [watchdog.TransactionalStore] and a [watchdog.FeedStore] that keeps its
// sessions and events in memory: for tests, and as the plain form of what the other stores do. A call may look at every
// row. The zero value is ready for use. A Memory must not be copied after its first use. It is safe for concurrent use.
type Memory struct {
	// Clock is the clock of the database; nil means [time.Now]. Set it before the first call.
	Clock func() time.Time

	mu            sync.Mutex
	events        watchdog.Memory
	aggregates    map[aggregate]bool
	rows          map[string]*memoryRow
	endings       int
	subscriptions map[*subscription]bool
}

type aggregate struct{ kind, id string }

// A memoryRow is a session with the store's own columns.
type memoryRow struct {
	Session
	spoiled bool // unreadable
	ending  int  // the number of its latest end, from 1
}

// current reports whether the row is of an attempt that has not ended.
func (r *memoryRow) current(attempt int) bool {
	return r != nil && r.Status == Active && r.Attempt == attempt
}

// Append implements [watchdog.EventStore].
func (m *Memory) Append(ctx context.Context, events ...watchdog.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.append(ctx, events)
}

func (m *Memory) append(ctx context.Context, events []watchdog.Event) error {
	if err := m.events.Append(ctx, events...); err != nil {
		return err
	}
	m.addAggregates(events)
	return nil
}

// addAggregates notes where events are, for History.
func (m *Memory) addAggregates(events []watchdog.Event) {
	if m.aggregates == nil {
		m.aggregates = map[aggregate]bool{}
	}
	for _, e := range events {
		m.aggregates[aggregate{e.AggregateType, e.AggregateID}] = true
	}
}

// Read implements [watchdog.EventStore].
func (m *Memory) Read(ctx context.Context, aggregateType, aggregateID string) ([]watchdog.Event, error) {
	return m.events.Read(ctx, aggregateType, aggregateID)
}

// Put writes rows unchanged, as another program would, with the times that they have. It returns nil.
func (m *Memory) Put(_ context.Context, rows ...Session) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, s := range rows {
		m.put(&memoryRow{Session: s})
	}
	return nil
}

// Spoil makes the row of a run unreadable, as another program could. It returns nil.
func (m *Memory) Spoil(_ context.Context, runID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.rows[runID]; r != nil {
		r.spoiled = true
	}
	return nil
}

func (m *Memory) put(r *memoryRow) {
	if m.rows == nil {
		m.rows = map[string]*memoryRow{}
	}
	for _, at := range []*time.Time{&r.CreatedAt, &r.LastEventAt, &r.StartedAt} {
		*at = record.Truncate(*at)
	}
	m.rows[r.RunID] = r
}

// Attach implements [Store].
func (m *Memory) Attach(ctx context.Context, s Session) (before, after Session, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Session{}, Session{}, err
	}
	now := m.now()
	r := &memoryRow{Session: Session{RunID: s.RunID, CreatedAt: now}}
	if there := m.rows[s.RunID]; there != nil {
		if before, err = there.read(); err != nil {
			return Session{}, Session{}, err
		}
		*r = *there
	}
	r.Parent, r.Threshold, r.StartedAt, r.Host = s.Parent, s.Threshold, s.StartedAt, s.Host
	r.Status, r.Reason, r.LastEventAt = Active, "", now
	r.Attempt++
	m.put(r)
	return before, r.Session, nil
}

// Freshen implements [Store]. No row is ever locked or refused.
func (m *Memory) Freshen(ctx context.Context, fresh []Freshness) (skipped Skipped, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Skipped{}, err
	}
	now := m.now()
	for _, f := range fresh {
		r := m.rows[f.RunID]
		if !r.current(f.Attempt) {
			skipped.Gone = append(skipped.Gone, f.RunID)
			continue
		}
		if at := record.Truncate(now.Add(-f.Age)); at.After(r.LastEventAt) {
			r.LastEventAt = at
		}
	}
	return skipped, nil
}

// End implements [Store]. It skips none.
func (m *Memory) End(ctx context.Context, ends []Ending) (Skipped, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Skipped{}, err
	}
	for _, e := range ends {
		if err := e.Validate(); err != nil {
			return Skipped{}, err
		}
	}
	for _, e := range ends {
		if r := m.rows[e.RunID]; r.current(e.Attempt) {
			m.end(r, e.Status, e.Reason)
		}
	}
	return Skipped{}, nil
}

func (m *Memory) end(r *memoryRow, status Status, reason watchdog.StopReason) {
	m.endings++
	r.Status, r.Reason, r.ending = status, reason, m.endings
}

// Session implements [Store].
func (m *Memory) Session(ctx context.Context, runID string) (Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Session{}, err
	}
	r := m.rows[runID]
	if r == nil {
		return Session{}, fmt.Errorf("%w: run %s", ErrNotFound, runID)
	}
	return r.read()
}

// Cancel implements [Store].
func (m *Memory) Cancel(ctx context.Context, judged Session, c CancelRequest) (cancelled bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return false, err
	}
	for _, e := range c.Events {
		if err := e.Validate(); err != nil {
			return false, err
		}
	}
	r := m.rows[judged.RunID]
	if !r.current(judged.Attempt) || r.spoiled || !r.LastEventAt.Equal(record.Truncate(judged.LastEventAt)) {
		return false, nil
	}
	if err := m.append(ctx, c.Events); err != nil {
		return false, err
	}
	m.end(r, Cancelled, c.Reason)
	r.Resumes = c.Resumes
	m.notify(r.RunID)
	return true, nil
}

func (r *memoryRow) read() (Session, error) {
	if r.spoiled {
		return Session{}, fmt.Errorf("%w: run %s: it was spoiled", ErrUnreadable, r.RunID)
	}
	return r.Session, nil
}

func (m *Memory) now() time.Time {
	if m.Clock == nil {
		return record.Truncate(time.Now())
	}
	return record.Truncate(m.Clock())
}

var (
	_ Store    = (*Memory)(nil)
	_ Listener = (*Memory)(nil)
)
