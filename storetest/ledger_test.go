package storetest_test

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/seed62658d38/watchdog"
)

// A ledger is a plain SpendStore. Each part of it can be replaced by one with a flaw.
type ledger struct {
	mu         sync.Mutex
	charged    map[page]watchdog.Totals
	currencies map[string]string
	slices     map[string]*entry
	meetings   map[string]chan struct{}

	validate func(s watchdog.Slice) error
	fit      func(s watchdog.Slice, charged watchdog.Totals) (granted watchdog.Totals, fits bool)
	add      func(charged, granted watchdog.Totals) watchdog.Totals
	windowAt func(s watchdog.Slice, now time.Time) (name string, ends time.Time)
	scopeOf  func(scope string) string // as what it is charged
	idOf     func(s watchdog.Slice) string
	currency func(s watchdog.Slice, known string) (string, error)
	// currencyOf is what a currency belongs to.
	currencyOf func(s watchdog.Slice) string
	// again is the answer to a slice that was taken before.
	again    func(l *ledger, e *entry, s watchdog.Slice) (watchdog.Grant, error)
	unfit    func(l *ledger, s watchdog.Slice, at page, granted watchdog.Totals)
	giveBack func(l *ledger, e *entry, unused watchdog.Totals) error
	// named is the name of a window in the answer.
	named   func(s watchdog.Slice, name string, fits bool) string
	unknown error
	// done is what becomes of a call whose context is done. If it is nil, that is an error.
	doneTake, doneReturn func(ctx context.Context, call func() error) error
	// What is not atomic.
	racesForTotals, racesForIDs, racesToReturn bool
}

// A page is a window of a scope.
type page struct{ scope, window string }

type entry struct {
	at       page
	scope    string
	ends     time.Time
	name     string // of the window, in answers
	granted  watchdog.Totals
	returned watchdog.Totals
	back     bool
	written  chan struct{}
}

func newLedger() *ledger {
	return &ledger{
		charged: map[page]watchdog.Totals{}, currencies: map[string]string{}, slices: map[string]*entry{},
		meetings: map[string]chan struct{}{},
		validate: watchdog.Slice.Validate, fit: watchdog.Slice.Fit, add: watchdog.Totals.Add,
		windowAt: watchdog.Slice.WindowAt, scopeOf: func(scope string) string { return scope },
		idOf:       func(s watchdog.Slice) string { return s.ID },
		currency:   watchdog.Slice.CurrencyOf,
		currencyOf: func(s watchdog.Slice) string { return s.Scope },
		again:      (*ledger).answerAgain, giveBack: (*ledger).giveBackOnce,
		named:   func(_ watchdog.Slice, name string, _ bool) string { return name },
		unfit:   func(*ledger, watchdog.Slice, page, watchdog.Totals) {},
		unknown: fmt.Errorf("%w return: there is no such slice", watchdog.ErrInvalid),
	}
}

// withFlaw returns a ledger in which something was replaced.
func withFlaw(change func(l *ledger)) func() watchdog.SpendStore {
	return func() watchdog.SpendStore {
		l := newLedger()
		change(l)
		return l
	}
}

func (l *ledger) Take(ctx context.Context, s watchdog.Slice) (g watchdog.Grant, err error) {
	err = ifDone(ctx, l.doneTake, func() error {
		if err := l.validate(s); err != nil {
			return err
		}
		g, err = l.take(s)
		return err
	})
	return g, err
}

// ifDone makes a call, if the context is not done or a flaw makes it all the same.
func ifDone(ctx context.Context, flaw func(context.Context, func() error) error, call func() error) error {
	switch {
	case ctx.Err() == nil:
		return call()
	case flaw != nil:
		return flaw(ctx, call)
	}
	return ctx.Err()
}

func (l *ledger) take(s watchdog.Slice) (watchdog.Grant, error) {
	id := l.idOf(s)
	l.mu.Lock()
	defer l.mu.Unlock()
	if e := l.slices[id]; e != nil {
		return l.takenBefore(e, s)
	}
	if l.racesForIDs {
		l.meet(id)
	}
	currency, err := l.currency(s, l.currencies[l.currencyOf(s)])
	if err != nil {
		return watchdog.Grant{}, err
	}
	name, ends := l.windowAt(s, time.Now())
	e := &entry{at: page{l.scopeOf(s.Scope), name}, scope: s.Scope, ends: ends, written: make(chan struct{})}
	e.name, _ = s.WindowAt(time.Now())
	before := l.charged[e.at]
	granted, fits := l.fit(s, before)
	if !fits {
		l.unfit(l, s, e.at, granted)
		return watchdog.Grant{Charged: l.charged[e.at], Window: l.named(s, e.name, false)}.Until(ends, time.Now()), nil
	}
	e.granted, e.name = granted, l.named(s, e.name, true)
	l.slices[id], l.currencies[l.currencyOf(s)] = e, currency
	if l.racesForTotals {
		l.meet(s.Scope)
	}
	l.charged[e.at] = l.add(before, granted)
	close(e.written)
	return l.grant(e, granted), nil
}

func (l *ledger) takenBefore(e *entry, s watchdog.Slice) (watchdog.Grant, error) {
	l.mu.Unlock()
	<-e.written
	l.mu.Lock()
	return l.again(l, e, s)
}

func (l *ledger) answerAgain(e *entry, s watchdog.Slice) (watchdog.Grant, error) {
	if err := s.CheckScope(e.scope); err != nil {
		return watchdog.Grant{}, err
	}
	return l.grant(e, e.granted), nil
}

func (l *ledger) grant(e *entry, granted watchdog.Totals) watchdog.Grant {
	return watchdog.Grant{Fits: true, Granted: granted, Charged: l.charged[e.at], Window: e.name}.Until(e.ends, time.Now())
}

func (l *ledger) Return(ctx context.Context, id string, unused watchdog.Totals) error {
	return ifDone(ctx, l.doneReturn, func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		e := l.slices[id]
		if e == nil {
			return l.unknown
		}
		return l.giveBack(l, e, unused)
	})
}

func (l *ledger) giveBackOnce(e *entry, unused watchdog.Totals) error {
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
	defer l.mu.Lock()
	if other, waits := l.meetings[place]; waits {
		delete(l.meetings, place)
		close(other)
		l.mu.Unlock()
		return
	}
	met := make(chan struct{})
	l.meetings[place] = met
	l.mu.Unlock()
	select {
	case <-met:
	case <-time.After(patience):
		l.mu.Lock()
		if l.meetings[place] == met {
			delete(l.meetings, place)
		}
		l.mu.Unlock()
	}
}
