// Package ledger keeps what runs use up besides time: a session and its layers are charged together or not at all.
//
// It has no lock, no clock and no store. Whoever calls it holds a lock for a [Ledger]. How much fits is for package
// verdict.
package ledger

import (
	"fmt"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Ledger is what a session and its layers have charged. The zero value is one without accounts.
type Ledger struct {
	currency string
	charges  []charge
	free     []int // the charges that are over
	keys     keys
	accounts int // that have had a key
}

// An Account is what one run has used.
type Account struct {
	// Spend is what the decision goes by.
	Spend *verdict.Spend
	// Currency is that of its limits of cost. It does not change once the run is there.
	Currency string

	ledger *Ledger
	outer  *Account // of the run around it, nil for a session
	number int      // tells it from the others whose calls have keys; 0 before the first
	closed bool     // nothing is admitted any more
}

// OpenSession makes the account that of the session.
func (l *Ledger) OpenSession(a *Account, spend *verdict.Spend, currency string) {
	*a = Account{Spend: spend, Currency: currency, ledger: l}
	l.currency = currency
}

// OpenLayer makes the account that of a layer of the run that has the outer one.
func (l *Ledger) OpenLayer(a, outer *Account, spend *verdict.Spend, currency string) {
	*a = Account{Spend: spend, Currency: currency, ledger: l, outer: outer}
}

// Close has nothing more admitted.
func (a *Account) Close() { a.closed = true }

// pays checks the currency of a cost. The first one is that of the session.
func (l *Ledger) pays(use *verdict.Use, currency string, o *Outcome) bool {
	switch {
	case use.Counts[verdict.KindCost] == 0 || currency == l.currency:
	case l.currency == "":
		l.currency = currency
	default:
		o.flawed(fmt.Sprintf("its Cost is in %s, and the run counts %s", currency, l.currency))
		return false
	}
	return true
}

// A charge is an admission that is open. The generation tells it from those that had its place before.
type charge struct {
	gen  uint64
	of   *Account // nil while it is free
	most verdict.Use
	key  string
}

// An ID names a charge of a ledger.
type ID struct {
	at  int
	gen uint64
}

func (l *Ledger) open(a *Account, c *Call, o *Outcome) {
	if len(l.free) == 0 {
		l.charges = append(l.charges, charge{})
		l.free = append(l.free, len(l.charges)-1)
	}
	at := l.free[len(l.free)-1]
	l.free = l.free[:len(l.free)-1]
	one := &l.charges[at]
	one.gen++
	one.of, one.key = a, c.Key
	one.most = c.Use
	o.ID = ID{at, one.gen}
	if c.Key != "" {
		l.keys.add(l.keyOf(a, c.Key), keyed{o.ID, c.Use})
	}
}

func (l *Ledger) find(id ID) *charge {
	if one := &l.charges[id.at]; one.gen == id.gen && one.of != nil {
		return one
	}
	return nil
}

func (l *Ledger) end(id ID) {
	one := &l.charges[id.at]
	one.of, one.key = nil, ""
	l.free = append(l.free, id.at)
}

// Settle charges what a call has used in place of its admission. A call that does not say of which tool it was is of
// the one that it was admitted for.
func (l *Ledger) Settle(id ID, used *verdict.Use, currency string, o *Outcome) {
	one := l.find(id)
	if one == nil || !l.pays(used, currency, o) {
		return
	}
	if used.Tool == "" {
		used.Tool = one.most.Tool
	}
	for a := one.of; a != nil; a = a.outer {
		o.Look = a.Spend.Settle(&one.most, used) || o.Look
	}
	if one.key != "" {
		l.keys.settle(l.keyOf(one.of, one.key))
	}
	l.end(id)
	o.Did = Settled
}

// Void takes a charge back, and forgets its key. It reports whether it was open.
func (l *Ledger) Void(id ID) bool {
	one := l.find(id)
	if one == nil {
		return false
	}
	one.of.voidUpTo(nil, &one.most)
	if one.key != "" {
		delete(l.keys.known, l.keyOf(one.of, one.key))
	}
	l.end(id)
	return true
}
