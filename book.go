package watchdog

import (
	"fmt"
	"sync"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// maxSettled is how many keys of settled charges a run remembers.
const maxSettled = 1024

// A book keeps what a session and its layers have charged. They share its mutex, so that a call is charged to all of
// them or to none. No code of the host's runs under it.
//
// Rejected: a mutex for each run. A call that does not fit around the layer would have been charged in it meanwhile,
// and another that fits would be refused for it.
type book struct {
	mu       sync.Mutex
	session  *account
	currency string
	charges  []charge
	free     []int // the charges that are over
	keys     map[chargeKey]keyed
	settled  []chargeKey // a ring, the oldest at next once it is full
	next     int
	drawn    []*allotment // by the call that is being admitted
}

// A charge is an admission that is open. The generation tells it from those that had its place before.
type charge struct {
	gen   uint64
	of    *account // nil while it is free
	most  verdict.Use
	key   string
	parts []*allotment // what it drew on, by the draws of the session
}

// A chargeKey is a key of one window of a run.
type chargeKey struct{ run, window, key string }

// A keyed charge is one that is open, or over.
type keyed struct {
	charge Charge
	most   verdict.Use
}

// An account is what one run has used. The book's mutex guards it.
type account struct {
	w     *Watchdog
	outer *account // of the run around it, nil for a session
	book  *book
	spend *verdict.Spend
	draws []*draw // of a session: what of its limits is kept in a store
	// currency is that of its limits of cost. It does not change once the run is there.
	currency string
	closed   bool // nothing is admitted any more
}

// A deed is what a charge leaves to do when the mutex is free.
type deed struct {
	look    bool // at the run and those around it
	owes    bool // more was used than was taken
	late    bool // that of a run that is closed
	fresh   bool // a charge was made
	refused *Refused
	missing *shortage
	err     error
}

// accountOf returns the run's account, made at the first need, and those of the runs around it.
func (w *Watchdog) accountOf() *account {
	if a := w.account.Load(); a != nil {
		return a
	}
	a := &account{w: w, currency: w.limits.currency, spend: verdict.NewSpend(w.limits.Counts, w.observeOnly)}
	if w.outer != nil {
		a.outer = w.outer.accountOf()
		a.book = a.outer.book
	} else {
		a.book = &book{currency: a.currency, session: a}
	}
	w.account.CompareAndSwap(nil, a)
	return w.account.Load()
}

func (w *Watchdog) chargeKey(key string) chargeKey { return chargeKey{w.id, w.lineage.fresh(), key} }

// admitAll charges the run and those around it, or none of them.
func (a *account) admitAll(key string, most *Amount, use *verdict.Use, how *admission, did *deed) (c Charge) {
	b := a.book
	b.mu.Lock()
	defer b.mu.Unlock()
	if key != "" {
		if known, ok := b.keys[a.w.chargeKey(key)]; ok {
			return known.again(use, did)
		}
	}
	if did.err = b.pays(most); did.err != nil {
		return c
	}
	session := a.admitOut(use, how, did)
	if session == nil {
		return c
	}
	if b.drawn, did.missing = session.draw(b.drawn[:0], use, how); did.missing != nil {
		a.voidUpTo(nil, use)
		return c
	}
	did.owes, did.fresh = how.owes, true
	return b.open(a, key, use)
}

// admitOut charges the run and those around it, and returns the account of the outermost; or none of them, and returns
// nil.
func (a *account) admitOut(use *verdict.Use, how *admission, did *deed) (session *account) {
	for one := a; one != nil; one = one.outer {
		if !one.admit(use, how, did) {
			a.voidUpTo(one, use)
			return nil
		}
		session = one
	}
	return session
}

// voidUpTo takes an admission back in the run and those around it, up to one of them. The caller holds mu of the book.
func (a *account) voidUpTo(outer *account, use *verdict.Use) {
	for one := a; one != outer; one = one.outer {
		one.spend.Void(use)
	}
}

// admit charges the run, or notes why not.
func (a *account) admit(use *verdict.Use, how *admission, did *deed) (admitted bool) {
	if a.closed {
		did.err = fmt.Errorf("%w: %w", ErrEnded, a.w.cause())
		return false
	}
	i := a.spend.Admit(use)
	if i < 0 {
		return true
	}
	if a.spend.ObserveOnly {
		if how.before == nil { // else it was noted before the store was asked
			did.look = a.spend.Refused(i, use) || did.look
			a.spend.AddRefusal(i)
		}
		a.spend.AdmitAll(use)
		return true
	}
	did.look = a.spend.Refused(i, use) || did.look
	did.refused = a.refused(i, use)
	return false
}

// refused is the error of a call that does not fit in a limit.
func (a *account) refused(i int, use *verdict.Use) *Refused {
	if !a.spend.ObserveOnly || a.spend.Refuses(use) < 0 { // else it was counted before the store was asked
		a.spend.AddRefusal(i)
	}
	a.learnAll()
	r := &Refused{Usage: a.w.usageOf(a.spend.Use(i))}
	r.Needed = a.spend.Limits[i].Most(use)
	return r
}

// again returns a charge that was made before.
func (k *keyed) again(use *verdict.Use, did *deed) (c Charge) {
	for i, n := range use.Counts {
		if n > k.most.Counts[i] {
			did.err = fmt.Errorf("%w amount: the call was admitted under its key with %d %s and may use %d now; give another "+
				"call a key of its own", ErrInvalid, k.most.Counts[i], verdict.Kind(i), n)
			return c
		}
	}
	return k.charge
}

// pays checks the currency of a cost; the first one is that of the session.
func (b *book) pays(a *Amount) error {
	switch {
	case a.Cost.Micros == 0 || a.Cost.Currency == b.currency:
	case b.currency == "":
		b.currency = a.Cost.Currency
	default:
		return fmt.Errorf("%w amount: its Cost is in %s, and the run counts %s", ErrInvalid, a.Cost.Currency, b.currency)
	}
	return nil
}

// open makes the charge of what was drawn. The caller holds mu.
func (b *book) open(a *account, key string, use *verdict.Use) Charge {
	if len(b.free) == 0 {
		b.charges = append(b.charges, charge{})
		b.free = append(b.free, len(b.charges)-1)
	}
	at := b.free[len(b.free)-1]
	b.free = b.free[:len(b.free)-1]
	one := &b.charges[at]
	one.gen++
	one.of, one.key = a, key
	one.most = *use
	one.parts, b.drawn = b.drawn, one.parts[:0]
	c := Charge{b, at, one.gen}
	if key != "" {
		if b.keys == nil {
			b.keys = map[chargeKey]keyed{}
		}
		b.keys[a.w.chargeKey(key)] = keyed{c, *use}
	}
	return c
}

// find returns the charge if it is open. The caller holds mu.
func (b *book) find(c Charge) *charge {
	if one := &b.charges[c.at]; one.gen == c.gen && one.of != nil {
		return one
	}
	return nil
}

// close ends an open charge. The caller holds mu.
func (b *book) close(at int) {
	one := &b.charges[at]
	one.of, one.key = nil, ""
	clear(one.parts)
	b.free = append(b.free, at)
}

// settle charges what was used in place of what was admitted. It returns the run whose call it was, nil if it is over.
func (b *book) settle(c Charge, used *Amount, use *verdict.Use, did *deed) (w *Watchdog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.find(c)
	if one == nil {
		did.late = b.session.closed && b.session.owing()
		return nil
	}
	if did.err = b.pays(used); did.err != nil {
		return nil
	}
	if use.Tool == "" {
		use.Tool = one.most.Tool
	}
	for a := one.of; a != nil; a = a.outer {
		did.look = a.spend.Settle(&one.most, use) || did.look
	}
	b.session.replace(one, use, did)
	w = one.of.w
	if one.key != "" {
		b.remember(w.chargeKey(one.key))
	}
	b.close(c.at)
	return w
}

// void takes a charge back, and forgets its key. It returns the run whose call it was, nil if it is over.
func (b *book) void(c Charge) (w *Watchdog) {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.find(c)
	if one == nil {
		return nil
	}
	one.of.voidUpTo(nil, &one.most)
	b.session.replace(one, &verdict.Use{Tool: one.most.Tool}, &deed{})
	w = one.of.w
	if one.key != "" {
		delete(b.keys, w.chargeKey(one.key))
	}
	b.close(c.at)
	return w
}

// remember keeps the key of a charge that was settled, and forgets the oldest. The caller holds mu.
func (b *book) remember(key chargeKey) {
	if len(b.settled) < maxSettled {
		b.settled = append(b.settled, key)
		return
	}
	delete(b.keys, b.settled[b.next])
	b.settled[b.next], b.next = key, (b.next+1)%maxSettled
}
