package session

import "context"

// Listen implements [Listener]. It returns nil when the context ends.
func (m *Memory) Listen(ctx context.Context, ready func(), told func(runID string)) error {
	m.mu.Lock()
	next := len(m.notified)
	m.mu.Unlock()
	ready()
	for {
		all, more := m.notifiedFrom(next)
		for _, runID := range all {
			told(runID)
		}
		next += len(all)
		select {
		case <-more:
		case <-ctx.Done():
			return nil
		}
	}
}

// notifiedFrom returns what was told from a place on, and a channel that is closed when there is more.
func (m *Memory) notifiedFrom(next int) (all []string, more <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.more == nil {
		m.more = make(chan struct{})
	}
	return m.notified[next:], m.more
}

// notify tells whoever listens of a run, and waits for none of them.
func (m *Memory) notify(runID string) {
	m.notified = append(m.notified, runID)
	if m.more != nil {
		close(m.more)
		m.more = nil
	}
}
