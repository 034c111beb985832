package session

import (
	"context"

	"github.com/seed62658d38/watchdog"
)

// Select implements [watchdog.TransactionalStore].
func (m *Memory) Select(ctx context.Context, s watchdog.Selection) ([]watchdog.Event, error) {
	return m.events.Select(ctx, s)
}

// Transact implements [watchdog.TransactionalStore]. Decide is called with the memory's mutex held and must not call
// the memory. If it panics, nothing is stored.
func (m *Memory) Transact(ctx context.Context, exchanges ...*watchdog.Exchange) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.events.Transact(ctx, exchanges...); err != nil {
		return err
	}
	for _, x := range exchanges {
		m.noteStored(x.Kept)
	}
	return nil
}

// Layers implements [watchdog.FeedStore]. It looks at every event.
func (m *Memory) Layers(ctx context.Context, parent string) ([]string, error) {
	return m.events.Layers(ctx, parent)
}

// Follow implements [watchdog.FeedStore]. It calls told with no lock held, and starts no goroutine.
func (m *Memory) Follow(ctx context.Context, aggregateID string, ready func(), told func(watchdog.Event)) error {
	return m.events.Follow(ctx, aggregateID, ready, told)
}

var (
	_ watchdog.TransactionalStore = (*Memory)(nil)
	_ watchdog.FeedStore          = (*Memory)(nil)
)
