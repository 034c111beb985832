package ledger

import "github.com/seed62658d38/watchdog/internal/verdict"

// A source is what a session draws on for its limits of these kinds, by the indexes that they have, of one tool or of
// all.
type source struct {
	shared  *Shared
	tool    string
	limits  [len(verdict.Counts{})]int // -1 for a kind without a limit
	windows int                        // that were seen to end
	owes    bool                       // a call of the session used more than was taken
}

// AddSource has the session draw on a shared limit, for its limits of the scope and the tool that add up.
func (l *Ledger) AddSource(shared *Shared, scope, tool string) {
	s := source{shared: shared, tool: tool}
	for kind := range s.limits {
		s.limits[kind] = -1
	}
	for i, limit := range l.session.Spend.Limits {
		if limit.Scope == scope && limit.Tool == tool && limit.Kind < verdict.KindCallInput {
			s.limits[limit.Kind] = i
		}
	}
	l.session.sources = append(l.session.sources, s)
}

func (s *source) need(use *verdict.Use) (need verdict.Counts) {
	if s.tool != "" && s.tool != use.Tool {
		return need
	}
	for kind, i := range s.limits {
		if i >= 0 {
			need[kind] = use.Counts[kind]
		}
	}
	return need
}

// open is up to where the source's limits admit calls.
func (s *source) open(a *Account) (limit verdict.Counts) {
	limit = endless
	for kind, i := range s.limits {
		if i >= 0 {
			limit[kind] = a.Spend.Open(i)
		}
	}
	return limit
}

// Open is up to where the limits of a source admit calls.
func (l *Ledger) Open(source int) verdict.Counts { return l.session.sources[source].open(l.session) }

// Standings are how many steps the limits of a source had taken, and by how much they were extended.
type standings [len(verdict.Counts{})]struct {
	steps    int
	extended int64
}

func (a *Account) standings(s *source) (stood standings) {
	for kind, i := range s.limits {
		if i >= 0 {
			stood[kind].steps, stood[kind].extended = a.Spend.Counts[i].Steps, a.Spend.Counts[i].Extended
		}
	}
	return stood
}

// Learn brings what all have used of the limits that are kept into the decision.
func (a *Account) Learn() {
	for i := range a.sources {
		a.learn(&a.sources[i])
	}
}

// learn brings what all have used of a source's limits into the decision: of a shared limit everything, of one of the
// session's own what others have. It reports whether the run has to be looked at.
func (a *Account) learn(s *source) (look bool) {
	if s.shared.closed {
		return false
	}
	all, others := s.shared.used(), s.shared.others()
	for kind, i := range s.limits {
		switch {
		case i < 0:
		case a.Spend.Limits[i].Scope == "":
			look = a.Spend.Learn(i, others[kind]) || look
		default:
			if s.windows != s.shared.ended {
				a.Spend.Renew(i)
			}
			look = a.Spend.Learn(i, all[kind]) || look
		}
	}
	s.windows = s.shared.ended
	return look
}

// exceeded notes the shared limits of which more was used than they allow.
func (a *Account) exceeded(s *source) (look bool) {
	for _, i := range s.limits {
		if i < 0 || a.Spend.Limits[i].Scope == "" {
			continue
		}
		if u := a.Spend.Use(i); u.Used > u.Allowed {
			look = a.Spend.Exceeded(i) || look
		}
	}
	return look
}

// Owing reports whether calls of the session have used something that the store has not taken.
func (l *Ledger) Owing() bool {
	for i := range l.session.sources {
		if l.Owes(i) {
			return true
		}
	}
	return false
}

// Owes is Owing for one of the sources.
func (l *Ledger) Owes(source int) bool {
	s := &l.session.sources[source]
	s.owes = s.owes && s.shared.Owed() != (verdict.Counts{})
	return s.owes
}

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
