package ledger

import "github.com/seed62658d38/watchdog/internal/verdict"

// A Range is what a call can be made, and whether it waits for room to be made larger.
type Range struct {
	verdict.Range
	// Waits says that it is not made small while calls under way hold what it could have if they used nothing: it is
	// [Held]. Late says that it has waited, and takes what there is.
	Waits, Late bool

	capped bool
	top    int64 // once it is capped, the last step for which the store has room
}

// size makes the call as large as fits, or leaves it at its least, and reports whether it is to be tried.
func (a *Account) size(c *Call, o *Outcome) bool {
	r := c.Range
	if r == nil {
		return true
	}
	now, free := r.Steps(), r.Steps()
	if r.capped {
		now, free = r.top, r.top
	}
	for one := a; one != nil; one = one.outer {
		step, alone := one.Spend.Step(&r.Range)
		now, free = min(now, step), min(free, alone)
	}
	c.Use = r.At(now)
	return !r.holds(now, free, o)
}

// resize makes a call smaller for which the store has no room, and reports whether it is to be tried again, or waits.
func (a *Account) resize(c *Call, s *source, o *Outcome) bool {
	r := c.Range
	if r == nil || a.Spend.ObserveOnly {
		return false
	}
	now, free := r.Steps(), r.Steps()
	limit, used, open := s.open(a), s.shared.used(), a.ledger.admitted(s)
	least, most := s.need(&r.Least), s.need(&r.Most)
	for kind := range limit {
		room := verdict.Room(limit[kind], used[kind])
		now = min(now, r.Step(room, least[kind], most[kind]))
		free = min(free, r.Step(verdict.AddCount(open[kind], room), least[kind], most[kind]))
	}
	if r.holds(now, free, o) {
		return true
	}
	switch {
	case now == verdict.NoStep:
		c.Use = r.Least
		return false
	case r.capped && now >= r.top: // something was given back since
		return false
	}
	r.capped, r.top = true, now
	return true
}

// enough is the part of the most that a call does not wait to exceed: the most is rarely used, and a call that waited
// for all of it would have others wait that are as good as done.
const enough = 4

// holds reports whether the call waits.
func (r *Range) holds(now, free int64, o *Outcome) bool {
	switch {
	case !r.Waits || now >= free:
		return false
	case now > verdict.NoStep && (r.Late || now >= r.Steps()/enough):
		return false
	}
	o.Did = Held
	return true
}

// admitted is what open calls may use of a source.
func (l *Ledger) admitted(s *source) (all verdict.Counts) {
	for i := range l.charges {
		if one := &l.charges[i]; one.of != nil {
			need := s.need(&one.most)
			all.Add(&need)
		}
	}
	return all
}
