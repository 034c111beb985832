package watchdog

import (
	"context"
	"fmt"
	"time"
)

// A memorySpend is what a [Memory] keeps as a [SpendStore]. The mutex of the memory guards it.
type memorySpend struct {
	currencies map[string]string // of the scopes
	charged    map[memoryWindow]Totals
	slices     map[string]*memorySlice
}

type memoryWindow struct{ scope, name string }

type memorySlice struct {
	window   memoryWindow
	ends     time.Time
	granted  Totals
	returned bool
}

// Take implements [SpendStore]. Its clock is [time.Now]. Windows that have ended, and their slices, are kept.
func (m *Memory) Take(ctx context.Context, s Slice) (Grant, error) {
	if err := ctx.Err(); err != nil {
		return Grant{}, err
	}
	if err := s.Validate(); err != nil {
		return Grant{}, err
	}
	name, ends := s.WindowAt(time.Now()) // before the lock: it reads the zone
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.spend.take(s, &memorySlice{window: memoryWindow{s.Scope, name}, ends: ends})
}

func (m *memorySpend) take(s Slice, slice *memorySlice) (Grant, error) {
	if known := m.slices[s.ID]; known != nil {
		if err := s.CheckScope(known.window.scope); err != nil {
			return Grant{}, err
		}
		return m.grant(known, true), nil
	}
	currency, err := s.CurrencyOf(m.currencies[s.Scope])
	if err != nil {
		return Grant{}, err
	}
	granted, fits := s.Fit(m.charged[slice.window])
	if !fits {
		return m.grant(slice, false), nil
	}
	if m.slices == nil {
		m.currencies, m.charged, m.slices = map[string]string{}, map[memoryWindow]Totals{}, map[string]*memorySlice{}
	}
	slice.granted = granted
	m.currencies[s.Scope], m.slices[s.ID] = currency, slice
	m.charged[slice.window] = m.charged[slice.window].Add(granted)
	return m.grant(slice, true), nil
}

func (m *memorySpend) grant(s *memorySlice, fits bool) Grant {
	g := Grant{Fits: fits, Granted: s.granted, Charged: m.charged[s.window], Window: s.window.name}
	return g.Until(s.ends, time.Now())
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
	charged, err := m.spend.charged[s.window].GiveBack(s.granted, unused)
	if err != nil || s.returned {
		return err
	}
	m.spend.charged[s.window], s.returned = charged, true
	return nil
}

var _ SpendStore = (*Memory)(nil)
