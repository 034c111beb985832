package session

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
)

// A Memory is a [Store], a [Lister], a [Listener], an [Outbox], a [watchdog.TransactionalStore], a [watchdog.FeedStore]
// and a [watchdog.SpendStore] that keeps its sessions and events in memory: for tests, and as the plain form of what
// the other stores do. A call may look at every row and every event. Nothing waits for a lock, no lease is ever locked,
// and what is written is never forgotten. Its spend is by [time.Now], whatever Clock is. What it calls must not call
// it. The zero value is ready for use. A Memory must not be copied after its first use. It is safe for concurrent use.
type Memory struct {
	// Clock is the clock of the database; nil means [time.Now]. Set it before the first call.
	Clock func() time.Time
	// Locked tells whether another transaction has locked the row of a run; nil means that none is. Set it before the
	// first call.
	Locked func(runID string) bool
	// Outbox puts the end of each window into the [Outbox], where it stays until it is finished. False keeps none. Set it
	// before the first call.
	Outbox bool

	events // Read, Select, Layers, Follow, Take and Return are its

	mu        sync.Mutex
	log       []watchdog.Event // the events in the order in which they were stored
	stored    map[string]int   // the place of each in the log, by ID
	rows      map[string]*memoryRow
	leases    map[string]*Lease
	leaseEnds map[leaseEnd]bool // that the leases are to be told of
	notices   []*memoryNotice   // in the order in which they were put
	notified  []string          // the runs that listeners are told of
	more      chan struct{}     // closed when there are more of them
}

// events has another name than its type so that a Memory has no field that others see.
type events = watchdog.Memory

// lock takes the memory for a call, unless ctx has ended. The caller gives it back.
func (m *Memory) lock(ctx context.Context) error {
	m.mu.Lock()
	if err := ctx.Err(); err != nil {
		m.mu.Unlock()
		return err
	}
	if m.rows == nil {
		m.stored, m.rows = map[string]int{}, map[string]*memoryRow{}
		m.leases, m.leaseEnds = map[string]*Lease{}, map[leaseEnd]bool{}
	}
	return nil
}

// Append implements [watchdog.EventStore].
func (m *Memory) Append(ctx context.Context, all ...watchdog.Event) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	return m.append(ctx, all)
}

func (m *Memory) append(ctx context.Context, all []watchdog.Event) error {
	if err := m.events.Append(ctx, all...); err != nil {
		return err
	}
	m.noteStored(all)
	return nil
}

// Transact implements [watchdog.TransactionalStore]. If Decide panics, nothing is stored.
func (m *Memory) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if err := m.events.Transact(ctx, exchanges...); err != nil {
		return err
	}
	for _, x := range exchanges {
		m.noteStored(x.Kept)
	}
	return nil
}

// noteStored notes events that are stored, each once, and puts the ends among them into the outbox.
func (m *Memory) noteStored(all []watchdog.Event) {
	for _, e := range all {
		if _, there := m.stored[e.ID]; there {
			continue
		}
		e.Timestamp, e.Payload = record.Truncate(e.Timestamp), bytes.Clone(e.Payload)
		m.stored[e.ID], m.log = len(m.log), append(m.log, e)
		isEnd := e.Type == watchdog.EventCancel || e.Type == watchdog.EventComplete
		if m.Outbox && isEnd && e.AggregateType == watchdog.AggregateType {
			m.put(Notice{ID: e.ID, AggregateType: e.AggregateType, AggregateID: e.AggregateID, Type: e.Type})
		}
	}
}

// Put writes rows unchanged, as another program would, with the times that they have.
func (m *Memory) Put(ctx context.Context, rows ...Session) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	for _, s := range rows {
		m.write(&memoryRow{Session: s})
	}
	return nil
}

// Spoil makes the row of a run unreadable, as another program could.
func (m *Memory) Spoil(ctx context.Context, runID string) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	if r := m.rows[runID]; r != nil {
		r.spoiled = true
	}
	return nil
}

// Delete removes the row of a run, as another program or an older copy of the database could.
func (m *Memory) Delete(ctx context.Context, runID string) error {
	if err := m.lock(ctx); err != nil {
		return err
	}
	defer m.mu.Unlock()
	delete(m.rows, runID)
	return nil
}

// Clone returns a copy of the memory as it is now, with the same Clock, Locked and Outbox and without who listens or
// follows: for tests of what a process does whose database comes back older.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Memory{Clock: m.Clock, Locked: m.Locked}
	_ = c.Append(context.Background(), m.log...) // they were valid once
	c.Outbox, c.leaseEnds = m.Outbox, maps.Clone(m.leaseEnds)
	for runID, r := range m.rows {
		c.rows[runID] = copyOf(r)
	}
	for id, l := range m.leases {
		c.leases[id] = copyOf(l)
	}
	for _, n := range m.notices {
		c.notices = append(c.notices, copyOf(n))
	}
	return c
}

func copyOf[T any](v *T) *T {
	c := *v
	return &c
}

// sorted returns the rows in the order of their run IDs.
func (m *Memory) sorted() []*memoryRow {
	return slices.SortedFunc(maps.Values(m.rows), func(a, b *memoryRow) int { return cmp.Compare(a.RunID, b.RunID) })
}

func (m *Memory) locked(runID string) bool { return m.Locked != nil && m.Locked(runID) }

func (m *Memory) now() time.Time {
	if m.Clock == nil {
		return record.Truncate(time.Now())
	}
	return record.Truncate(m.Clock())
}

var (
	_ Store                       = (*Memory)(nil)
	_ Lister                      = (*Memory)(nil)
	_ Listener                    = (*Memory)(nil)
	_ Outbox                      = (*Memory)(nil)
	_ watchdog.TransactionalStore = (*Memory)(nil)
	_ watchdog.FeedStore          = (*Memory)(nil)
	_ watchdog.SpendStore         = (*Memory)(nil)
)
