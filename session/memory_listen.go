package session

import "context"

// A subscription is one call of Listen. The memory's mutex guards it.
type subscription struct {
	cancelled []string      // run IDs that Listen has not passed on yet
	wake      chan struct{} // has room for one
}

// Listen implements [Listener]. It returns nil when the context ends.
func (m *Memory) Listen(ctx context.Context, ready func(), told func(runID string)) error {
	s := m.subscribe()
	defer m.unsubscribe(s)
	ready()
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil
		}
		for _, runID := range m.take(s) {
			told(runID)
		}
	}
}

func (m *Memory) subscribe() *subscription {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.subscriptions == nil {
		m.subscriptions = map[*subscription]bool{}
	}
	s := &subscription{wake: make(chan struct{}, 1)}
	m.subscriptions[s] = true
	return s
}

func (m *Memory) unsubscribe(s *subscription) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.subscriptions, s)
}

// take returns the run IDs that wait to be passed on, and clears them.
func (m *Memory) take(s *subscription) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	cancelled := s.cancelled
	s.cancelled = nil
	return cancelled
}

// notify tells every subscription of a cancel, without waiting for one. The caller holds the mutex.
func (m *Memory) notify(runID string) {
	for s := range m.subscriptions {
		s.cancelled = append(s.cancelled, runID)
		wake(s.wake)
	}
}
