// Package ledger keeps what runs use up besides time: a session and its layers are charged together or not at all, and
// what a store keeps of their limits is drawn on in memory.
//
// It has no lock, no clock and no store. Whoever calls it holds a lock for a [Ledger] and all that its accounts draw
// on, and passes the instants; what is to be asked of a store, it returns. How much fits is for package verdict.
package ledger

import (
	"fmt"

	"github.com/seed62658d38/watchdog/oracle/frozen/internal/verdict"
)

// A Ledger is what a session and its layers have charged. The zero value is one without accounts.
type Ledger struct {
	session  *Account
	currency string
	charges  []charge
	free     []int // the charges that are over
	keys     keys
	accounts int       // that have had a key
	drawn    []*Window // by the call that is being admitted
}

// An Account is what one run has used.
type Account struct {
	// Spend is what the decision goes by.
	Spend *verdict.Spend
	// Currency is that of its limits of cost. It does not change once the run is there.
	Currency string

	ledger  *Ledger
	outer   *Account // of the run around it, nil for a session
	number  int      // tells it from the others whose calls have keys; 0 before the first
	closed  bool     // nothing is admitted any more
	sources []source // of a session: what of its limits is kept in a store
}

// OpenSession makes the account that of the session.
func (l *Ledger) OpenSession(a *Account, spend *verdict.Spend, currency string) {
	*a = Account{Spend: spend, Currency: currency, ledger: l}
	l.session, l.currency = a, currency
}

// OpenLayer makes the account that of a layer of the run that has the outer one.
func (l *Ledger) OpenLayer(a, outer *Account, spend *verdict.Spend, currency string) {
	*a = Account{Spend: spend, Currency: currency, ledger: l, outer: outer}
}

// Close has nothing more admitted. It reports whether that is new.
func (a *Account) Close() (first bool) {
	first = !a.closed
	a.closed = true
	return first
}

// AddLimits adds the limits of a scope to those of the session.
func (l *Ledger) AddLimits(limits []verdict.CountLimit, currency string) {
	l.session.Spend.AddLimits(limits)
	if l.session.Currency == "" {
		l.session.Currency, l.currency = currency, currency
	}
}

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
