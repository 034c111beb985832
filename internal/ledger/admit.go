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
	// Owes says that it is charged though the store has not granted it.
	Owes bool
	// Range is what the call can be made, nil for one that is what it is. Use is the largest use in it that fits then.
	Range *Range

	lacks []lack // what it lacked so far, the last one last
	noted bool   // that it did not fit in the session, which is only observed
}

// Again makes it a call that was not tried.
func (c *Call) Again() {
	c.Owes, c.lacks, c.noted = false, nil, false
	if c.Range != nil {
		c.Range.capped = false
	}
}

// most is the most that it can be made.
func (c *Call) most() *verdict.Use {
	if c.Range != nil {
		return &c.Range.Most
	}
	return &c.Use
}

// A lack is what a call lacks of a shared limit. The limits are as they were when it lacked that first, so that calls
// which wait together and are refused together are one trip, and do not use up what the first of them unlocks.
type lack struct {
	source int
	least  verdict.Counts
	limit  verdict.Counts
	stood  standings
}

// An Outcome is what became of a call. It is set by pointer: each call has one, and it is not copied.
type Outcome struct {
	Did Did
	// Look says that the runs have to be looked at, Owes that more was used than was taken, Late that of a session that
	// is closed.
	Look, Owes, Late bool
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
	// Source is the shared limit of which it lacks something.
	Source int
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
	Lacking            // the store has to be asked first
	Refused            // it does not fit
	Held               // calls under way hold what it waits for
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
	if !l.pays(c.most(), c.Currency, o) || !a.size(c, o) || !a.admitAround(c, o) {
		return
	}
	if !l.session.draw(c, o) {
		a.voidUpTo(nil, &c.Use)
		return
	}
	o.Did, o.Owes = Charged, c.Owes
	l.open(a, c, o)
}

func (o *Outcome) flawed(flaw string) { o.Did, o.Why = Flawed, &Why{Flaw: flaw} }

func (a *Account) admitAround(c *Call, o *Outcome) bool {
	for one := a; one != nil; one = one.outer {
		if !one.admit(c, o) {
			a.voidUpTo(one, &c.Use)
			return false
		}
	}
	return true
}

// voidUpTo takes an admission back in the run and those around it, up to one of them.
func (a *Account) voidUpTo(outer *Account, use *verdict.Use) {
	for one := a; one != outer; one = one.outer {
		one.Spend.Void(use)
	}
}

// admit charges the run, or notes why not.
func (a *Account) admit(c *Call, o *Outcome) (admitted bool) {
	if a.closed {
		o.Did, o.Why = Closed, &Why{Of: a}
		return false
	}
	i := a.Spend.Admit(&c.Use)
	if i < 0 {
		return true
	}
	if !a.Spend.ObserveOnly {
		o.Look = a.Spend.Refused(i, &c.Use) || o.Look
		a.refuse(i, c, o)
		return false
	}
	if len(c.lacks) == 0 { // else it was noted before the store was asked
		o.Look = a.Spend.Refused(i, &c.Use) || o.Look
		a.Spend.Counts[i].Refused++
		c.noted = a.outer == nil
	}
	a.Spend.AdmitAll(&c.Use)
	return true
}

func (a *Account) refuse(i int, c *Call, o *Outcome) {
	if !c.noted { // before the store was asked
		a.Spend.Counts[i].Refused++
	}
	a.Learn()
	o.Did, o.Why = Refused, &Why{Of: a, Limit: i, Extended: a.Spend.Counts[i].Extended}
}

// draw draws the call on all that the session shares, or on nothing, and notes what it lacks. What it owes, it draws
// also where it is not there.
func (a *Account) draw(c *Call, o *Outcome) bool {
	parts := a.ledger.drawn[:0]
	for i := range a.sources {
		s := &a.sources[i]
		need := s.need(&c.Use)
		if need == (verdict.Counts{}) {
			parts = append(parts, nil)
			continue
		}
		limit := c.limit(i, s.open(a))
		refuses := -1
		if a.Spend.ObserveOnly && !c.Owes && !c.noted {
			refuses = s.shared.refuses(&need, &limit)
		}
		part, least, short := s.shared.draw(&need, &limit, c.Owes, a.Spend.ObserveOnly)
		if short {
			a.undo(parts, &c.Use)
			c.lack(lack{i, least, limit, a.standings(s)})
			o.Did, o.Why = Lacking, &Why{Source: i}
			return false
		}
		if refuses >= 0 { // it is drawn on what was taken before; else it is noted when the store was asked
			a.Spend.Void(&c.Use) // it is refused beside the others
			o.Look = a.Spend.Refused(s.limits[refuses], &c.Use) || o.Look
			a.Spend.AdmitAll(&c.Use)
			a.Spend.Counts[s.limits[refuses]].Refused++
			c.noted = true
		}
		s.owes = s.owes || c.Owes
		parts = append(parts, part)
	}
	a.ledger.drawn = parts
	return true
}

func (a *Account) undo(parts []*Window, use *verdict.Use) {
	for i, part := range parts {
		if need := a.sources[i].need(use); need != (verdict.Counts{}) {
			a.sources[i].shared.replace(part, &need, &verdict.Counts{})
		}
	}
}

// limit is up to where a shared limit admits the call.
func (c *Call) limit(source int, limit verdict.Counts) verdict.Counts {
	if before := c.lackOf(source); before != nil {
		for kind := range limit {
			limit[kind] = min(limit[kind], before.limit[kind])
		}
	}
	return limit
}

// lackOf is what the call lacked of that, nil if nothing.
func (c *Call) lackOf(source int) *lack {
	for i := range c.lacks {
		if c.lacks[i].source == source {
			return &c.lacks[i]
		}
	}
	return nil
}

// lack notes what the call lacks, once for each shared limit.
func (c *Call) lack(one lack) {
	if before := c.lackOf(one.source); before != nil {
		one.stood = before.stood
		*before = one
		return
	}
	c.lacks = append(c.lacks, one)
}

// Wants is the slice to take for what the call lacks of a shared limit. Of what it does not lack, it takes nothing:
// others may need it. For a run that is only observed it takes by force what will not fit, so that the store is asked
// once.
func (l *Ledger) Wants(c *Call, source int) Slice {
	one, s := c.lackOf(source), &l.session.sources[source]
	want := Slice{Least: one.least, Limit: endless}
	for kind, n := range one.least {
		if n > 0 {
			want.Limit[kind] = one.limit[kind]
		}
	}
	need := s.need(&c.Use)
	if want.Force = l.session.Spend.ObserveOnly && s.shared.refuses(&need, &one.limit) >= 0; want.Force {
		for kind, n := range want.Least {
			want.Least[kind] = s.shared.countable(kind, n)
		}
	}
	return want
}

// NotGranted refuses a call for which the store had no slice, unless something was given back since. It is noted as a
// trip, unless there was one while the call waited.
func (l *Ledger) NotGranted(c *Call, source int, o *Outcome) {
	a, one, s := l.session, c.lackOf(source), &l.session.sources[source]
	a.Learn()
	if a.resize(c, s, o) {
		return
	}
	need := s.need(&c.Use)
	kind := s.shared.refuses(&need, &one.limit)
	if kind < 0 {
		return
	}
	i, stood := s.limits[kind], one.stood[kind]
	a.refuse(i, c, o)
	o.Why.Extended = stood.extended
	if a.Spend.Counts[i].Steps == stood.steps && !c.noted {
		o.Look = a.Spend.Refused(i, &c.Use)
	}
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
