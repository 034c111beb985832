package session

import (
	"context"
	"maps"
)

// Clone returns a copy of the memory as it is now, with the same Clock, Locked and Outbox and without who listens or
// follows: for tests of what a process does whose database comes back older.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &Memory{
		Clock: m.Clock, Locked: m.Locked, Outbox: m.Outbox, outbox: m.outbox.clone(),
		aggregates: maps.Clone(m.aggregates), leaseEnds: make(map[string]map[AttemptID]bool, len(m.leaseEnds)),
		rows: make(map[string]*memoryRow, len(m.rows)), leases: make(map[string]*Lease, len(m.leases)),
	}
	for runID, r := range m.rows {
		row := *r
		c.rows[runID] = &row
	}
	for id, l := range m.leases {
		lease := *l
		c.leases[id] = &lease
	}
	for id, ends := range m.leaseEnds {
		c.leaseEnds[id] = maps.Clone(ends)
	}
	for of := range m.aggregates {
		events, _ := m.events.Read(context.Background(), of.kind, of.id) // fails only if the context has ended
		_ = c.events.Append(context.Background(), events...)             // they were valid once
	}
	return c
}
