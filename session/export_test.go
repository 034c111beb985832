package session

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
)

// Flush flushes once.
func (k *Keeper) Flush(ctx context.Context) { k.flusher.flush(ctx) }

// RecheckAll has the next flush write every row.
func (k *Keeper) RecheckAll() {
	k.roster.mu.Lock()
	defer k.roster.mu.Unlock()
	for _, r := range k.roster.runs {
		k.roster.recheck(r)
	}
}

// Renew renews the lease once.
func (k *Keeper) Renew(ctx context.Context) { k.leases.renew(ctx) }

// SetAllowed has the limits of all runs allow a silence, as if they had been changed.
func (k *Keeper) SetAllowed(allowed time.Duration) {
	k.roster.mu.Lock() // as the next flush does
	defer k.roster.mu.Unlock()
	k.rows.allowed = func(*watchdog.Watchdog) time.Duration { return allowed }
}

// Requested returns how many runs are to look for a cancel.
func (k *Keeper) Requested() int {
	k.roster.mu.Lock()
	defer k.roster.mu.Unlock()
	return len(k.roster.toSync)
}

// Delete removes the row of a run, as another program or an older copy of the database could.
func (m *Memory) Delete(ctx context.Context, runID string) error {
	return m.do(ctx, func() error { delete(m.rows, runID); return nil })
}

// Clone returns a copy of the memory as it is now, without who listens or follows: what a process finds whose database
// comes back older.
func (m *Memory) Clone() *Memory {
	c := &Memory{Clock: m.Clock, Locked: m.Locked}
	m.mu.Lock()
	defer m.mu.Unlock()
	_ = c.Append(context.Background(), slices.Collect(maps.Values(m.stored))...) // they were valid once
	c.Outbox, c.rows, c.leases, c.notices = m.Outbox, maps.Clone(m.rows), maps.Clone(m.leases), slices.Clone(m.notices)
	for id, l := range c.leases {
		l.ended = maps.Clone(l.ended)
		c.leases[id] = l
	}
	return c
}
