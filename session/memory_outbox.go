package session

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/seed62658d38/watchdog"
	"github.com/seed62658d38/watchdog/internal/record"
	"github.com/seed62658d38/watchdog/internal/storerows"
)

// A memoryOutbox is the outbox of a [Memory], which guards it. It is empty as long as the outbox is off.
type memoryOutbox struct {
	notices []*memoryNotice // in the order in which they were put
	// stored has the IDs of all events: one that is stored again is not in the outbox again.
	stored map[string]bool
}

// A memoryNotice is due from a time on, which was set at another; one that was never claimed has neither.
type memoryNotice struct {
	Notice
	due, pausedAt time.Time
}

// pause has a notice be due after a while.
func (n *memoryNotice) pause(now time.Time, d time.Duration) {
	n.due, n.pausedAt = record.Truncate(now.Add(d)), now
}

func (n *memoryNotice) isDue(now time.Time) bool {
	return !n.due.After(now) || n.pausedAt.After(now.Add(storerows.SetBack))
}

// add puts the ends among events that are stored, each once.
func (o *memoryOutbox) add(now time.Time, events []watchdog.Event) {
	if o.stored == nil {
		o.stored = map[string]bool{}
	}
	for _, e := range events {
		isEnd := e.Type == watchdog.EventCancel || e.Type == watchdog.EventComplete
		if isEnd && e.AggregateType == watchdog.AggregateType && !o.stored[e.ID] {
			o.put(now, Notice{ID: e.ID, AggregateType: e.AggregateType, AggregateID: e.AggregateID, Type: e.Type})
		}
		o.stored[e.ID] = true
	}
}

func (o *memoryOutbox) put(now time.Time, n Notice) {
	n.CreatedAt, n.Tries, n.Waited = now, 0, 0
	o.notices = append(o.notices, &memoryNotice{Notice: n})
}

func (o *memoryOutbox) has(id string) bool {
	return slices.ContainsFunc(o.notices, func(n *memoryNotice) bool { return n.ID == id })
}

// due returns the notices that are, the longest due first.
func (o *memoryOutbox) due(now time.Time) (due []*memoryNotice) {
	for _, n := range o.notices {
		if n.isDue(now) {
			due = append(due, n)
		}
	}
	slices.SortStableFunc(due, func(a, b *memoryNotice) int { return a.due.Compare(b.due) })
	return due
}

func (o *memoryOutbox) clone() memoryOutbox {
	c := memoryOutbox{stored: maps.Clone(o.stored)}
	for _, n := range o.notices {
		notice := *n
		c.notices = append(c.notices, &notice)
	}
	return c
}

// PutNotices implements [Outbox].
func (m *Memory) PutNotices(ctx context.Context, notices ...Notice) error {
	for _, n := range notices {
		if err := n.Validate(); err != nil {
			return err
		}
	}
	return m.withOutbox(ctx, func(now time.Time) {
		for _, n := range notices {
			if !m.outbox.has(n.ID) {
				m.outbox.put(now, n)
			}
		}
	})
}

// ClaimNotices implements [Outbox]. No notice is ever locked.
func (m *Memory) ClaimNotices(ctx context.Context, most int, lasts time.Duration) (claimed []Notice, err error) {
	if err := storerows.CheckClaim(most, lasts); err != nil {
		return nil, err
	}
	err = m.withOutbox(ctx, func(now time.Time) {
		due := m.outbox.due(now)
		for _, n := range due[:min(most, len(due))] {
			n.pause(now, lasts)
			n.Tries++
			claimed = append(claimed, n.Notice)
		}
	})
	return claimed, err
}

// FinishNotices implements [Outbox].
func (m *Memory) FinishNotices(ctx context.Context, notices ...Notice) error {
	return m.withOutbox(ctx, func(time.Time) {
		m.outbox.notices = slices.DeleteFunc(m.outbox.notices, func(there *memoryNotice) bool {
			return slices.ContainsFunc(notices, func(n Notice) bool { return n.ID == there.ID })
		})
	})
}

// DelayNotice implements [Outbox].
func (m *Memory) DelayNotice(ctx context.Context, n Notice, pause time.Duration) error {
	if err := storerows.CheckPause(n.ID, pause); err != nil {
		return err
	}
	return m.withOutbox(ctx, func(now time.Time) {
		for _, there := range m.outbox.notices {
			if there.ID == n.ID && there.Tries == n.Tries {
				there.pause(now, pause)
				there.Waited = addWait(there.Waited, pause)
			}
		}
	})
}

// addWait adds a pause to those before, at most to the longest time that can be told.
func addWait(before, pause time.Duration) time.Duration {
	whole := storerows.RoundUp(before) + storerows.RoundUp(pause)
	return time.Duration(min(whole, storerows.LongestWait)) * time.Microsecond
}

// withOutbox makes a call with the mutex held, if the outbox is on.
func (m *Memory) withOutbox(ctx context.Context, call func(now time.Time)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !m.Outbox {
		return ErrNoOutbox
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	call(m.now())
	return nil
}

var _ Outbox = (*Memory)(nil)
