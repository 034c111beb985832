package watchdog

import (
	"context"
	"fmt"
	"time"
)

// keptWindow is how long a [Memory] keeps a window that has ended, for what is given back late or taken again after its
// answer was lost.
const keptWindow = 24 * time.Hour

// A memorySpend is what a [Memory] keeps as a [SpendStore]. The mutex of the memory guards it.
type memorySpend struct {
	currencies map[string]string // of the scopes
	windows    map[memoryWindow]*memoryLedger
	slices     map[string]*memorySlice
	forgotten  time.Time // when windows were last forgotten
}

type memoryWindow struct{ scope, name string }

// A memoryLedger is what a window is charged with.
type memoryLedger struct {
	memoryWindow
	ends    time.Time // zero for never
	charged Totals
	ids     []string // of its slices, if it ends
}

type memorySlice struct {
	window   *memoryLedger
	granted  Totals
	returned bool
}

// Take implements [SpendStore]. Its clock is [time.Now]. A window is forgotten a day after its end, with its slices.
func (m *Memory) Take(ctx context.Context, s Slice) (Grant, error) {
	if err := ctx.Err(); err != nil {
		return Grant{}, err
	}
	if err := s.Validate(); err != nil {
		return Grant{}, err
	}
	now := time.Now()
	name, ends := s.WindowAt(now) // before the lock: it reads the zone
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spend.forget(now)
	return m.spend.take(s, memoryWindow{s.Scope, name}, ends)
}

// forget forgets the windows that ended long ago. It looks once in an hour.
func (m *memorySpend) forget(now time.Time) {
	if now.Sub(m.forgotten) < time.Hour {
		return
	}
	m.forgotten = now
	for at, window := range m.windows {
		if window.ends.IsZero() || now.Sub(window.ends) <= keptWindow {
			continue
		}
		delete(m.windows, at)
		for _, id := range window.ids {
			delete(m.slices, id)
		}
	}
}

func (m *memorySpend) take(s Slice, at memoryWindow, ends time.Time) (Grant, error) {
	if known := m.slices[s.ID]; known != nil {
		if err := s.CheckScope(known.window.scope); err != nil {
			return Grant{}, err
		}
		return known.grant(true), nil
	}
	currency, err := s.CurrencyOf(m.currencies[s.Scope])
	if err != nil {
		return Grant{}, err
	}
	slice := &memorySlice{window: m.windows[at]}
	if slice.window == nil {
		slice.window = &memoryLedger{memoryWindow: at, ends: ends}
	}
	granted, fits := s.Fit(slice.window.charged)
	if !fits {
		return slice.grant(false), nil
	}
	slice.granted = granted
	m.keep(s.ID, slice)
	m.currencies[s.Scope] = currency
	return slice.grant(true), nil
}

// keep charges a slice.
func (m *memorySpend) keep(id string, s *memorySlice) {
	if m.slices == nil {
		m.currencies, m.windows, m.slices = map[string]string{}, map[memoryWindow]*memoryLedger{}, map[string]*memorySlice{}
	}
	window := s.window
	m.slices[id], m.windows[window.memoryWindow] = s, window
	window.charged = window.charged.Add(s.granted)
	if !window.ends.IsZero() {
		window.ids = append(window.ids, id)
	}
}

func (s *memorySlice) grant(fits bool) Grant {
	g := Grant{Fits: fits, Granted: s.granted, Charged: s.window.charged, Window: s.window.name}
	return g.Until(s.window.ends, time.Now())
}

// Return implements [SpendStore].
func (m *Memory) Return(ctx context.Context, id string, unused Totals) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.spend.slices[id]
	if s == nil {
		return fmt.Errorf("%w return: there is no slice %q", ErrInvalid, id)
	}
	charged, err := s.window.charged.GiveBack(s.granted, unused)
	if err != nil || s.returned {
		return err
	}
	s.window.charged, s.returned = charged, true
	return nil
}

var _ SpendStore = (*Memory)(nil)
