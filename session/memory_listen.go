package session

import "context"

// An ear is somebody who listens. What it was told waits in it until it is passed on; it belongs to the memory's mutex.
type ear struct {
	waiting []string
	wake    chan struct{} // has room for one
}

// Listen implements [Listener]. It returns nil when the context ends.
func (m *Memory) Listen(ctx context.Context, ready func(), told func(runID string)) error {
	e := &ear{wake: make(chan struct{}, 1)}
	m.hear(e, true)
	defer m.hear(e, false)
	ready()
	for {
		select {
		case <-e.wake:
		case <-ctx.Done():
			return nil
		}
		for _, runID := range m.heard(e) {
			told(runID)
		}
	}
}

func (m *Memory) hear(e *ear, on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listeners == nil {
		m.listeners = map[*ear]bool{}
	}
	if on {
		m.listeners[e] = true
	} else {
		delete(m.listeners, e)
	}
}

func (m *Memory) heard(e *ear) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	waiting := e.waiting
	e.waiting = nil
	return waiting
}

// tell is called under the lock, and waits for nobody.
func (m *Memory) tell(runID string) {
	for e := range m.listeners {
		e.waiting = append(e.waiting, runID)
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}
