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

// A ledger is a plain SpendStore. Its calls are altered, and the steps that they consist of.
type ledger struct {
	mu         sync.Mutex
	charged    map[page]totals
	currencies map[string]string
	slices     map[string]*entry
	meetings   map[string]chan struct{}
	alter      alteration
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

// An offer is what is granted of a slice, and whether it fits.
type offer struct {
	granted totals
	fits    bool
}

// spending returns an empty ledger with a fault.
func spending(f fault) watchdog.SpendStore {
	return &ledger{
		charged: map[page]totals{}, currencies: map[string]string{}, slices: map[string]*entry{},
		meetings: map[string]chan struct{}{}, alter: f(),
	}
}

func (l *ledger) does(step string, c *call, do func()) error {
	c.l = l
	return c.does(step, l.alter, do)
}

func (l *ledger) Take(ctx context.Context, s slice) (grant, error) {
	c := &call{ctx: ctx, slice: s}
	err := l.does("Take", c, func() {
		looked := &call{slice: c.slice}
		invalid := l.does("validate", looked, func() { looked.err = looked.slice.Validate() })
		if c.err = cmp.Or(c.ctx.Err(), invalid); c.err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.take(c)
		}
	})
	return c.grant, err
}

func (l *ledger) take(c *call) {
	_ = l.does("look up", c, func() { c.e = l.slices[c.slice.ID] })
	if c.e != nil {
		l.mu.Unlock()
		<-c.e.written
		l.mu.Lock()
		_ = l.does("take again", c, func() {
			if c.err = c.slice.CheckScope(c.e.scope); c.err == nil {
				c.grant = l.grant(c.e)
			}
		})
		return
	}
	_ = l.does("find", c, func() {
		c.account, c.at.scope = c.slice.Scope, c.slice.Scope
		c.at.window, c.ends = c.slice.WindowAt(time.Now())
	})
	c.known, c.charged = l.currencies[c.account], l.charged[c.at]
	if l.does("agree", c, func() { c.currency, c.err = c.slice.CurrencyOf(c.known) }) != nil {
		return
	}
	_ = l.does("fit", c, func() { c.granted, c.fits = c.slice.Fit(c.charged) })
	_ = l.does("name", c, func() { c.window, _ = c.slice.WindowAt(time.Now()) })
	if c.fits {
		l.charge(c)
	} else {
		c.grant = grant{Charged: l.charged[c.at], Window: c.window}.Until(c.ends, time.Now())
	}
}

func (l *ledger) charge(c *call) {
	e := &entry{
		at: c.at, scope: c.slice.Scope, ends: c.ends, name: c.window, granted: c.granted, written: make(chan struct{}),
	}
	defer close(e.written)
	l.slices[c.slice.ID], l.currencies[c.account] = e, c.currency
	_ = l.does("charge", c, func() { c.sum = c.charged.Add(c.granted) })
	l.charged[c.at] = c.sum
	c.grant = l.grant(e)
}

func (l *ledger) grant(e *entry) grant {
	return grant{Fits: true, Granted: e.granted, Charged: l.charged[e.at], Window: e.name}.Until(e.ends, time.Now())
}

func (l *ledger) Return(ctx context.Context, id string, unused totals) error {
	c := &call{ctx: ctx, id: id, unused: unused}
	return l.does("Return", c, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.e = l.slices[c.id]
		switch {
		case c.ctx.Err() != nil:
			c.err = c.ctx.Err()
		case c.e == nil:
			c.err = fmt.Errorf("%w return: there is no such slice", watchdog.ErrInvalid)
		default:
			_ = l.does("give back", c, func() { l.giveBack(c) })
		}
	})
}

func (l *ledger) giveBack(c *call) {
	if _, c.err = l.charged[c.e.at].GiveBack(c.e.granted, c.unused); c.err == nil && !c.e.back {
		_ = l.does("discharge", c, func() {
			l.charged[c.e.at], c.err = l.charged[c.e.at].GiveBack(c.e.granted, c.unused)
			c.e.returned, c.e.back = c.unused, true
		})
	}
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
