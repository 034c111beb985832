package session

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/event"
)

// A Memory is a [Store], a [Lister], a [Listener], a [event.TransactionalStore] and a [event.LayerStore] that
// keeps its sessions and events in memory: for tests, and as the plain form of what the other stores do. A call may
// look at every row and every event. Nothing waits for a lock, no lease is ever locked, and what is written is never
// forgotten. What it calls must not call it. The zero value is ready for use. A Memory must not be copied after its
// first use. It is safe for concurrent use.
type Memory struct {
	// Clock is the clock of the database; nil means [time.Now]. Set it before the first call.
	Clock func() time.Time
	// Locked tells whether another transaction has locked the row of a run; nil means that none is. Set it before the
	// first call.
	Locked func(runID string) bool

	events // Read, Select and Layers are its

	mu       sync.Mutex
	stored   map[string]watchdog.Event // by ID
	rows     map[string]memoryRow
	leases   map[string]memoryLease
	notified []string      // the runs that listeners are told of
	more     chan struct{} // closed when there are more of them
}

// events has another name than its type so that a Memory has no field that others see.
type events = watchdog.Memory

// do makes a call that has the memory for itself, unless ctx has ended.
func (m *Memory) do(ctx context.Context, call func() error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.rows == nil {
		m.stored, m.rows = map[string]watchdog.Event{}, map[string]memoryRow{}
		m.leases, m.more = map[string]memoryLease{}, make(chan struct{})
	}
	return call()
}

func get[T any](ctx context.Context, m *Memory, call func() (T, error)) (got T, err error) {
	err = m.do(ctx, func() error { got, err = call(); return err })
	return got, err
}

func (m *Memory) now() time.Time {
	if m.Clock == nil {
		return event.Truncate(time.Now())
	}
	return event.Truncate(m.Clock())
}

// Append implements [watchdog.EventStore].
func (m *Memory) Append(ctx context.Context, all ...watchdog.Event) error {
	return m.do(ctx, func() error { return m.append(ctx, all) })
}

func (m *Memory) append(ctx context.Context, all []watchdog.Event) error {
	return m.transact(ctx, &event.Exchange{Decide: func([]watchdog.Event) []watchdog.Event { return all }})
}

// Transact implements [event.TransactionalStore]. If Decide panics, nothing is stored.
func (m *Memory) Transact(ctx context.Context, exchanges ...*event.Exchange) error {
	return m.do(ctx, func() error { return m.transact(ctx, exchanges...) })
}

// transact notes the events that are stored.
func (m *Memory) transact(ctx context.Context, exchanges ...*event.Exchange) error {
	if err := m.events.Transact(ctx, exchanges...); err != nil {
		return err
	}
	for _, x := range exchanges {
		for _, e := range x.Kept {
			e.Payload = bytes.Clone(e.Payload)
			m.stored[e.ID] = e
		}
	}
	return nil
}

// Put writes rows as another program would, with the times that they have, and without what a sweeper noted of them.
func (m *Memory) Put(ctx context.Context, rows ...Session) error {
	return m.do(ctx, func() error {
		for _, s := range rows {
			s.WarnedAt, s.Stopped = time.Time{}, false
			if s.Status != Cancelled {
				s.StopFailed, s.Start = false, WantedStart{}
			}
			m.write(memoryRow{Session: s})
		}
		return nil
	})
}

// Spoil makes the row of a run unreadable, as another program could.
func (m *Memory) Spoil(ctx context.Context, runID string) error {
	return m.do(ctx, func() error {
		if r, there := m.rows[runID]; there {
			r.unreadable = fmt.Errorf("%w: run %s: it was spoiled", ErrUnreadable, runID)
			m.write(r)
		}
		return nil
	})
}

// Delete removes the row of a run, as another program or an older copy of the database could.
func (m *Memory) Delete(ctx context.Context, runID string) error {
	return m.do(ctx, func() error { delete(m.rows, runID); return nil })
}

// Clone returns a copy of the memory as it is now, without who listens: what a process finds whose database comes back
// older.
func (m *Memory) Clone() *Memory {
	c := &Memory{Clock: m.Clock, Locked: m.Locked}
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = c.Append(context.Background(), slices.Collect(maps.Values(m.stored))...) // they were valid once
	c.rows, c.leases = maps.Clone(m.rows), maps.Clone(m.leases)
	for id, l := range c.leases {
		l.ended = maps.Clone(l.ended)
		c.leases[id] = l
	}
	return c
}

// where returns the rows for which something holds, in the order of their run IDs.
func (m *Memory) where(holds func(r memoryRow) bool) (rows []memoryRow) {
	for _, runID := range slices.Sorted(maps.Keys(m.rows)) {
		if r := m.row(runID); holds(r) {
			rows = append(rows, r)
		}
	}
	return rows
}

// free returns an error if another transaction has locked a row that there is.
func (m *Memory) free(runID string) error {
	if runID != "" && m.Locked != nil && m.Locked(runID) {
		return fmt.Errorf("session %s: %w", runID, ErrLocked)
	}
	return nil
}

// Listen implements [Listener]. It returns nil when the context ends.
func (m *Memory) Listen(ctx context.Context, ready func(), told func(runID string)) error {
	next, more := 0, (<-chan struct{})(nil)
	_ = m.do(ctx, func() error { next, more = len(m.notified), m.more; return nil })
	ready()
	for {
		select {
		case <-more:
		case <-ctx.Done():
			return nil
		}
		var all []string
		_ = m.do(ctx, func() error { all, more = m.notified[next:], m.more; return nil })
		for _, runID := range all {
			told(runID)
		}
		next += len(all)
	}
}

var _ interface {
	Store
	Lister
	Listener
	event.TransactionalStore
} = (*Memory)(nil)
