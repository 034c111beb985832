package storetest_test

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
)

type (
	slice  = watchdog.Slice
	totals = watchdog.Totals
	grant  = watchdog.Grant
)

// A ledger is a plain SpendStore. Each part of it can be replaced by one with a flaw.
type ledger struct {
	mu         sync.Mutex
	charged    map[page]totals
	currencies map[string]string
	slices     map[string]*entry
	meetings   map[string]chan struct{}

	// What changes what Take does: the slice that it validates, and that it looks whether it fits; what it grants; the sum
	// that it charges, and the window that it charges.
	validates, fits func(s *slice)
	grants          func(s slice, charged totals, g *offer)
	adds            func(charged, granted totals, sum *totals)
	windows         func(s slice, name *string, ends *time.Time)

	scopeOf    func(scope string) string // as what it is charged
	idOf       func(s slice) string
	currency   func(s slice, known string) (string, error)
	currencyOf func(s slice) string                   // what a currency belongs to
	again      func(e *entry, s slice) (grant, error) // the answer to a slice that was taken before
	giveBack   func(e *entry, unused totals) error
	unknown    error
	named      func(s slice, name string, fits bool) string // the name of a window in the answer
	alter      alteration

	// What is not atomic.
	racesForTotals, racesForIDs, racesToReturn bool
}

// A page is a window of a scope.
type page struct{ scope, window string }

type entry struct {
	at                page
	scope             string
	ends              time.Time
	name              string // of the window, in answers
	granted, returned totals
	back              bool
	written           chan struct{}
}

func newLedger() *ledger {
	l := &ledger{
		charged: map[page]totals{}, currencies: map[string]string{}, slices: map[string]*entry{},
		meetings:  map[string]chan struct{}{},
		validates: func(*slice) {}, fits: func(*slice) {}, grants: func(slice, totals, *offer) {},
		adds: func(_, _ totals, _ *totals) {}, windows: func(slice, *string, *time.Time) {},
		scopeOf:    func(scope string) string { return scope },
		idOf:       func(s slice) string { return s.ID },
		currency:   slice.CurrencyOf,
		currencyOf: func(s slice) string { return s.Scope },
		alter:      sound(),
		unknown:    fmt.Errorf("%w return: there is no such slice", watchdog.ErrInvalid),
		named:      func(_ slice, name string, _ bool) string { return name },
	}
	l.again, l.giveBack = l.answerAgain, l.giveBackOnce
	return l
}

// withFlaw returns a ledger in which something was replaced.
func withFlaw(replace func(l *ledger)) func() watchdog.SpendStore {
	return func() watchdog.SpendStore {
		l := newLedger()
		replace(l)
		return l
	}
}

func (l *ledger) Take(ctx context.Context, s slice) (grant, error) {
	c := &call{ctx: ctx, slice: s}
	err := c.does("Take", l.alter, func() {
		checked := c.slice
		l.validates(&checked)
		if c.err = cmp.Or(c.ctx.Err(), checked.Validate()); c.err == nil {
			c.grant, c.err = l.take(c.slice)
		}
	})
	return c.grant, err
}

func (l *ledger) Return(ctx context.Context, id string, unused totals) error {
	c := &call{ctx: ctx, id: id, unused: unused}
	return c.does("Return", l.alter, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		e := l.slices[c.id]
		switch {
		case c.ctx.Err() != nil:
			c.err = c.ctx.Err()
		case e == nil:
			c.err = l.unknown
		default:
			c.err = l.giveBack(e, c.unused)
		}
	})
}

func (l *ledger) take(s slice) (grant, error) {
	id := l.idOf(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.slices[id]; e != nil {
		l.mu.Unlock()
		<-e.written
		l.mu.Lock()
		return l.again(e, s)
	}
	if l.racesForIDs {
		l.meet(id)
	}
	currency, err := l.currency(s, l.currencies[l.currencyOf(s)])
	if err != nil {
		return grant{}, err
	}
	window, ends := s.WindowAt(time.Now())
	l.windows(s, &window, &ends)
	e := &entry{at: page{l.scopeOf(s.Scope), window}, scope: s.Scope, ends: ends, written: make(chan struct{})}
	before := l.charged[e.at]
	g := l.offer(s, before)
	name, _ := s.WindowAt(time.Now())
	e.granted, e.name = g.totals, l.named(s, name, g.fits)
	if !g.fits {
		return grant{Charged: l.charged[e.at], Window: e.name}.Until(ends, time.Now()), nil
	}
	l.slices[id], l.currencies[l.currencyOf(s)] = e, currency
	if l.racesForTotals {
		l.meet(s.Scope)
	}
	sum := before.Add(e.granted)
	l.adds(before, e.granted, &sum)
	l.charged[e.at] = sum
	close(e.written)
	return l.grant(e), nil
}

// An offer is what is granted of a slice, and whether it fits.
type offer struct {
	totals
	fits bool
}

func (l *ledger) offer(s slice, charged totals) offer {
	asked := s
	l.fits(&asked)
	granted, fits := asked.Fit(charged)
	g := offer{granted, fits}
	l.grants(s, charged, &g)
	return g
}

func (l *ledger) answerAgain(e *entry, s slice) (grant, error) {
	if err := s.CheckScope(e.scope); err != nil {
		return grant{}, err
	}
	return l.grant(e), nil
}

func (l *ledger) grant(e *entry) grant {
	return grant{Fits: true, Granted: e.granted, Charged: l.charged[e.at], Window: e.name}.Until(e.ends, time.Now())
}

func (l *ledger) giveBackOnce(e *entry, unused totals) error {
	if _, err := l.charged[e.at].GiveBack(e.granted, unused); err != nil || e.back {
		return err
	}
	if l.racesToReturn {
		l.meet(e.scope)
	}
	charged, err := l.charged[e.at].GiveBack(e.granted, unused)
	l.charged[e.at], e.returned, e.back = charged, unused, true
	return err
}

// meet unlocks the ledger until another caller comes to the same place, or a while has passed: two callers that could
// meet do.
func (l *ledger) meet(place string) {
	const patience = 10 * time.Millisecond
	met, waits := l.meetings[place]
	if waits {
		delete(l.meetings, place)
		close(met)
	} else {
		met = make(chan struct{})
		l.meetings[place] = met
	}
	l.mu.Unlock()
	select {
	case <-met:
	case <-time.After(patience):
	}
	l.mu.Lock()
	if l.meetings[place] == met {
		delete(l.meetings, place)
	}
}
