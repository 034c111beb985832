package ledger

import (
	"fmt"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

// A Call is one that is being admitted.
type Call struct {
	// Key is its own, empty for none. Use is the most that it can use, Currency that of its cost.
	Key      string
	Use      verdict.Use
	Currency string
}

// An Outcome is what became of a call. It is set by pointer: each call has one, and it is not copied.
type Outcome struct {
	Did Did
	// Look says that the runs have to be looked at.
	Look bool
	// ID is that of its charge.
	ID ID
	// Why is why nothing was charged.
	Why *Why
}

// A Why is what stands in the way of a call.
type Why struct {
	// Of is the account whose limit has no room for the call, or that is closed; Limit is the index of that limit, and
	// Extended what that was given so far.
	Of       *Account
	Limit    int
	Extended int64
	// Flaw says what is wrong with its amount.
	Flaw string
}

// Did is what was done about a call.
type Did uint8

// Nothing is charged but by Charged and Settled.
const (
	Nothing Did = iota // the charge is over
	Charged            // or it is admitted
	Known              // or it was charged before, under its key
	Refused            // it does not fit
	Closed             // the run admits nothing any more
	Flawed             // its amount is wrong
	Settled            // it is charged with what it used
)

// Admit charges the run and those around it with the most that the call can use, or none of them.
func (a *Account) Admit(c *Call, o *Outcome) {
	*o = Outcome{}
	l := a.ledger
	if c.Key != "" {
		if known, ok := l.keys.known[l.keyOf(a, c.Key)]; ok {
			known.again(c, o)
			return
		}
	}
	if !l.pays(&c.Use, c.Currency, o) {
		return
	}
	for one := a; one != nil; one = one.outer {
		if !one.admit(&c.Use, o) {
			a.voidUpTo(one, &c.Use)
			return
		}
	}
	o.Did = Charged
	l.open(a, c, o)
}

func (o *Outcome) flawed(flaw string) { o.Did, o.Why = Flawed, &Why{Flaw: flaw} }

// voidUpTo takes an admission back in the run and those around it, up to one of them.
func (a *Account) voidUpTo(outer *Account, use *verdict.Use) {
	for one := a; one != outer; one = one.outer {
		one.Spend.Void(use)
	}
}

// admit charges the run, or notes why not.
func (a *Account) admit(use *verdict.Use, o *Outcome) (admitted bool) {
	if a.closed {
		o.Did, o.Why = Closed, &Why{Of: a}
		return false
	}
	i := a.Spend.Admit(use)
	if i < 0 {
		return true
	}
	o.Look = a.Spend.Refused(i, use) || o.Look
	a.Spend.Counts[i].Refused++
	if a.Spend.ObserveOnly {
		a.Spend.AdmitAll(use)
		return true
	}
	o.Did, o.Why = Refused, &Why{Of: a, Limit: i, Extended: a.Spend.Counts[i].Extended}
	return false
}

// TakeBack reports whether the limit that refused a call was extended since. Then that was no refusal, and the call is
// made again.
func (o *Outcome) TakeBack() bool {
	if o.Did != Refused || o.Why.Of.Spend.Counts[o.Why.Limit].Extended <= o.Why.Extended {
		return false
	}
	o.Why.Of.Spend.Counts[o.Why.Limit].Refused--
	return true
}

// maxSettled is how many keys of settled charges a session remembers.
const maxSettled = 1024

// Keys are those of the charges that are open, and of the last that were settled.
type keys struct {
	known   map[key]keyed
	settled []key // a ring, the oldest at next once it is full
	next    int
}

// A key is one of an account. It names that by a number, so that what is remembered holds no account.
type key struct {
	account int
	text    string
}

// A keyed charge is one that is open, or over.
type keyed struct {
	id   ID
	most verdict.Use
}

func (l *Ledger) keyOf(a *Account, text string) key {
	if a.number == 0 {
		l.accounts++
		a.number = l.accounts
	}
	return key{a.number, text}
}

func (k *keys) add(of key, charge keyed) {
	if k.known == nil {
		k.known = map[key]keyed{}
	}
	k.known[of] = charge
}

// settle keeps the key of a charge that was settled, and forgets the oldest.
func (k *keys) settle(of key) {
	if len(k.settled) < maxSettled {
		k.settled = append(k.settled, of)
		return
	}
	delete(k.known, k.settled[k.next])
	k.settled[k.next], k.next = of, (k.next+1)%maxSettled
}

// again is a call that was charged before.
func (k *keyed) again(c *Call, o *Outcome) {
	for i, n := range c.Use.Counts {
		if n > k.most.Counts[i] {
			o.flawed(fmt.Sprintf("the call was admitted under its key with %d %s and may use %d now; give another call a key "+
				"of its own", k.most.Counts[i], verdict.Kind(i), n))
			return
		}
	}
	o.Did, o.ID, c.Use = Known, k.id, k.most
}
