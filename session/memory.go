package session

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
)

// A Memory is a [Store], a [Listener], an [Outbox], a [watchdog.TransactionalStore], a [watchdog.FeedStore] and a
// [watchdog.SpendStore] that keeps its sessions and events in memory: for tests, and as the plain form of what the
// other stores do. A call may look at every row. The zero value is ready for use. A Memory must not be copied after its
// first use. It is safe for concurrent use.
type Memory struct {
	// Clock is the clock of the database; nil means [time.Now]. Set it before the first call.
	Clock func() time.Time
	// Locked tells whether another transaction has locked the row of a run; nil means that none is. It must not call the
	// Memory. Set it before the first call.
	Locked func(runID string) bool
	// Outbox puts the end of each window into the [Outbox], where it stays until it is finished. False keeps none. Set it
	// before the first call.
	Outbox bool

	mu            sync.Mutex
	events        watchdog.Memory
	aggregates    map[aggregate]bool
	rows          map[string]*memoryRow
	leases        map[string]*Lease
	leaseEnds     map[string]map[AttemptID]bool // that the leases are to be told of
	subscriptions map[*subscription]bool
	outbox        memoryOutbox
}

type aggregate struct{ kind, id string }

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
	m.noteStored(events)
	return nil
}

// noteStored notes where events are, for History, and puts the ends among them into the outbox. The first event of an
// ID is the one that is stored.
func (m *Memory) noteStored(events []watchdog.Event) {
	if m.Outbox {
		m.outbox.add(m.now(), events)
	}
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

// Delete removes the row of a run, as another program or an older copy of the database could. It returns nil.
func (m *Memory) Delete(_ context.Context, runID string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.rows, runID)
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
	if s.Lease != "" {
		if err := m.leases[s.Lease].expiry(s.Lease); err != nil {
			return Session{}, Session{}, err
		}
	}
	there := m.rows[s.RunID]
	if there != nil && m.locked(s.RunID) {
		return Session{}, Session{}, fmt.Errorf("attach to run %s: %w", s.RunID, ErrLocked)
	}
	if there != nil {
		if before, err = m.read(there); err != nil {
			return Session{}, Session{}, err
		}
	}
	if s.Attempt > 0 && before.Attempt >= s.Attempt {
		return before, before, nil
	}
	r := m.attached(s, before)
	m.put(r)
	if before.Status == Active {
		m.noteEnd(before)
		m.notify(r.RunID)
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

// Freshen implements [Store]. It waits for no row that is locked, and none is ever refused.
func (m *Memory) Freshen(ctx context.Context, lease string, fresh []Freshness) (skipped Skipped, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return Skipped{}, err
	}
	if err := m.leases[lease].expiry(lease); err != nil {
		return Skipped{}, err
	}
	for _, f := range fresh {
		switch r := m.rows[f.RunID]; {
		case !r.current(f.Attempt):
			skipped.Gone = append(skipped.Gone, f.RunID)
		case m.locked(f.RunID):
			skipped.Locked = append(skipped.Locked, f.RunID)
		default:
			r.freshen(lease, f)
		}
	}
	return skipped, nil
}

// freshen writes the row's activity, unless it has a later one by the clock of this lease.
func (r *memoryRow) freshen(lease string, f Freshness) {
	if r.Lease == lease && f.Activity < r.Activity {
		return
	}
	r.Lease, r.Lost, r.Expired, r.Activity, r.quiet = lease, false, ExpiredLease{}, f.Activity, f.Quiet
	r.allow(f.Allowance)
	r.tell(f.State)
}

// allow gives the row an allowance, 0 for none. Nobody who reads it knows none, and needs a threshold in its place.
func (r *memoryRow) allow(allowance time.Duration) {
	if r.Allowance = allowance; allowance > 0 {
		r.Threshold = 0
	}
}

// End implements [Store]. It waits for no row that is locked.
func (m *Memory) End(ctx context.Context, ends []Ending) (skipped Skipped, err error) {
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

// tell has the row say what its run's process does, unless that is nothing new.
func (r *memoryRow) tell(state json.RawMessage) {
	if state != nil {
		r.State = state
	}
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
	return m.read(r)
}

// read returns a row as a session.
func (m *Memory) read(r *memoryRow) (Session, error) {
	if r.spoiled {
		return Session{}, fmt.Errorf("%w: run %s: it was spoiled", ErrUnreadable, r.RunID)
	}
	s := r.Session
	s.Silence, s.Behind = r.silence(m.leases[s.Lease])
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

func (m *Memory) locked(runID string) bool { return m.Locked != nil && m.Locked(runID) }

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
