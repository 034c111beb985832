package ledger

import (
	"fmt"

	"github.com/seed62658d38/watchdog/internal/verdict"
)

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

// keyOf is the key of a call of an account.
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
	if c.Range != nil { // it was made what it is
		c.Use = c.Range.Least
	}
	for i, n := range c.Use.Counts {
		if n > k.most.Counts[i] {
			o.flawed(fmt.Sprintf("the call was admitted under its key with %d %s and may use %d now; give another call a key "+
				"of its own", k.most.Counts[i], verdict.Kind(i), n))
			return
		}
	}
	o.Did, o.ID, c.Use = Known, k.id, k.most
}
