package memory

import (
	"sync"
	"time"
)

// keptWindow is how long a window that has ended is kept, for what is given back late or taken again after its answer
// was lost.
const keptWindow = 24 * time.Hour

// A Slice is what to charge a window with. It says what fits.
type Slice[Totals any] interface {
	CheckScope(charged string) error
	CurrencyOf(known string) (string, error)
	Fit(charged Totals) (granted Totals, fits bool)
}

// Totals are what is counted.
type Totals[T any] interface {
	Add(other T) T
	GiveBack(granted, unused T) (T, error)
}

// A Spend is what shared limits are charged with. A window is forgotten a day after its end, with its slices. The zero
// value is ready; it must not be copied after its first use. Safe for concurrent use.
type Spend[S Slice[T], T Totals[T]] struct {
	mu         sync.Mutex
	currencies map[string]string // of the scopes
	ledgers    map[Window]*ledger[T]
	slices     map[string]*slice[T]
	forgotten  int64 // the hour in which windows were last forgotten
}

// A Window is one of a scope.
type Window struct{ Scope, Name string }

// A ledger is what a window is charged with.
type ledger[T any] struct {
	window  Window
	ends    time.Time // zero for never
	charged T
	ids     []string // of its slices, if it ends
}

type slice[T any] struct {
	*ledger[T]
	granted  T
	returned bool
}

// A Grant is what came of a slice.
type Grant[T any] struct {
	Fits             bool
	Granted, Charged T
	Window           string
	Ends             time.Time
}

// Take charges a window, which ends then or never, with the slice if that fits. A slice whose ID was charged before is
// not charged again.
func (m *Spend[S, T]) Take(id string, s S, in Window, ends, now time.Time) (g Grant[T], err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forget(now)
	if known := m.slices[id]; known != nil {
		return known.grant(true), s.CheckScope(known.window.Scope)
	}
	currency, err := s.CurrencyOf(m.currencies[in.Scope])
	if err != nil {
		return g, err
	}
	taken := &slice[T]{ledger: m.ledgers[in]}
	if taken.ledger == nil {
		taken.ledger = &ledger[T]{window: in, ends: ends}
	}
	granted, fits := s.Fit(taken.charged)
	if fits {
		taken.granted = granted
		m.keep(id, taken, currency)
	}
	return taken.grant(fits), nil
}

// forget forgets the windows that ended long ago. It looks once in an hour.
func (m *Spend[S, T]) forget(now time.Time) {
	hour := now.Unix() / 3600
	if hour == m.forgotten {
		return
	}
	m.forgotten = hour
	for at, l := range m.ledgers {
		if l.ends.IsZero() || now.Sub(l.ends) <= keptWindow {
			continue
		}
		delete(m.ledgers, at)
		for _, id := range l.ids {
			delete(m.slices, id)
		}
	}
}

func (m *Spend[S, T]) keep(id string, s *slice[T], currency string) {
	if m.slices == nil {
		m.currencies, m.ledgers, m.slices = map[string]string{}, map[Window]*ledger[T]{}, map[string]*slice[T]{}
	}
	m.slices[id], m.ledgers[s.window], m.currencies[s.window.Scope] = s, s.ledger, currency
	s.charged = s.charged.Add(s.granted)
	if !s.ends.IsZero() {
		s.ids = append(s.ids, id)
	}
}

func (s *slice[T]) grant(fits bool) Grant[T] {
	return Grant[T]{fits, s.granted, s.charged, s.window.Name, s.ends}
}

// Return gives back what was not used of a slice, once. It reports whether there is such a slice.
func (m *Spend[S, T]) Return(id string, unused T) (known bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.slices[id]
	if s == nil {
		return false, nil
	}
	charged, err := s.charged.GiveBack(s.granted, unused)
	if err == nil && !s.returned {
		s.charged, s.returned = charged, true
	}
	return true, err
}

// Slices is how many slices are kept.
func (m *Spend[S, T]) Slices() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.slices)
}
